"""Gaussian processes in scikit-learn's protocol."""

from __future__ import annotations

import os
from typing import Any

from fitting.estimators.base import GaussianProcess
from fitting.estimators.exact_gp import ExactGP
from fitting.estimators.low_rank_gp import LowRankGP
from fitting.estimators.pac_gp import PACGP
from fitting.estimators.renyi_gp import RenyiGP
from fitting.estimators.sparse_gp import SparseGP
from fitting.estimators.sparse_pac_gp import SparsePACGP
from fitting.estimators.variational_classifier import VariationalGPClassifier
from fitting.estimators.variational_gp import VariationalGP

__all__ = [
    "PACGP",
    "ExactGP",
    "GaussianProcess",
    "LowRankGP",
    "RenyiGP",
    "SparseGP",
    "SparsePACGP",
    "VariationalGP",
    "VariationalGPClassifier",
    "load",
]


def load(path: str | os.PathLike[str], device: str | None = None, features: Any = None) -> GaussianProcess:
    """The model that `GaussianProcess.save` wrote to ``path``; it predicts bit for bit as before.

    ``device`` overrides the device of training: "cpu" loads a model that was trained on a GPU on a machine without one.
    ``features`` is the class, or a tuple of classes, of features that a user wrote; see `fitting.features.stored`.

    Raises
    ------
    ValueError
        for a file that is not a model, or of another version.
    """
    return GaussianProcess.load(path, device, features)
