"""Optimisers that keep the best point seen, report why they stopped, and continue from a file."""

from fitting.training.adam import Batches, train_adam
from fitting.training.lbfgs import train_lbfgs
from fitting.training.natural import NaturalSteps
from fitting.training.resolution import Resolution
from fitting.training.run import Loss, Run
from fitting.training.session import Session
from fitting.training.steps import Steps
from fitting.training.tail import RESUMED, Ending, Tail, tail_of

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
