"""Optimisers that keep the best point seen, report why they stopped, and continue from a file."""

from fitting.training.adam import Batches, NaturalSteps, Steps, train_adam
from fitting.training.ending import RESUMED, Ending, Resolution, Tail, tail_of
from fitting.training.lbfgs import train_lbfgs
from fitting.training.run import Loss, Run, Session

__all__ = [
    "RESUMED",
    "Batches",
    "Ending",
    "Loss",
    "NaturalSteps",
    "Resolution",
    "Run",
    "Session",
    "Steps",
    "Tail",
    "tail_of",
    "train_adam",
    "train_lbfgs",
]
