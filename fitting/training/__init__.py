"""Optimisers that keep the best point seen, report why they stopped, and continue from a file."""

from fitting.training.adam import Batches, NaturalSteps, Stale, Steps, train_adam, train_semi_stochastic
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
    "Stale",
    "Steps",
    "Tail",
    "tail_of",
    "train_adam",
    "train_lbfgs",
    "train_semi_stochastic",
]
