"""Optimisers that keep the best point seen, report why they stopped, and continue from a file."""

from fitting.training.adam import Batches, train_adam
from fitting.training.lbfgs import train_lbfgs
from fitting.training.run import Loss, Run
from fitting.training.session import Session

__all__ = ["Batches", "Loss", "Run", "Session", "train_adam", "train_lbfgs"]
