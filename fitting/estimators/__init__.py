"""Gaussian processes in scikit-learn's protocol.

Each class is loaded on first use, and scikit-learn with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpbounds.once import loaded_on_use

if TYPE_CHECKING:
    from fitting.estimators.base import GaussianProcess as GaussianProcess
    from fitting.estimators.exact_gp import ExactGP as ExactGP
    from fitting.estimators.low_rank_gp import LowRankGP as LowRankGP
    from fitting.estimators.pac_gp import PACGP as PACGP
    from fitting.estimators.renyi_gp import RenyiGP as RenyiGP
    from fitting.estimators.sparse_gp import SparseGP as SparseGP
    from fitting.estimators.sparse_pac_gp import SparsePACGP as SparsePACGP
    from fitting.estimators.variational_classifier import VariationalGPClassifier as VariationalGPClassifier
    from fitting.estimators.variational_gp import VariationalGP as VariationalGP

_HOME = {
    "ExactGP": "exact_gp",
    "GaussianProcess": "base",
    "LowRankGP": "low_rank_gp",
    "PACGP": "pac_gp",
    "RenyiGP": "renyi_gp",
    "SparseGP": "sparse_gp",
    "SparsePACGP": "sparse_pac_gp",
    "VariationalGP": "variational_gp",
    "VariationalGPClassifier": "variational_classifier",
}

__all__ = sorted([*_HOME, "load"])
__getattr__, __dir__ = loaded_on_use("fitting.estimators", _HOME, "load")


def load(path: str | os.PathLike[str], device: str | None = None, features: Any = None) -> GaussianProcess:
    """The model that `GaussianProcess.save` wrote to ``path``; it predicts bit for bit as before.

    ``device`` overrides the device of training: "cpu" loads a model that was trained on a GPU on a machine without one.
    ``features`` is the class, or a tuple of classes, of features that a user wrote; see `fitting.features.stored`.

    Raises
    ------
    ValueError
        for a file that is not a model, or of another version.
    """
    from fitting.estimators.base import GaussianProcess

    return GaussianProcess.load(path, device, features)
