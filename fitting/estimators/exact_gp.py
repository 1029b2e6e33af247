"""The exact Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitting.estimators.base import GaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.evaluation import Parameters
from fitting.family import Member, member
from fitting.training import Run
from gpbounds.arrays import Float, namespace
from gpbounds.kernels import Kernel


@dataclass(eq=False, repr=False)
class ExactGP(GaussianProcess):
    """Gaussian process regression with log p(y) = log N(y; 0, K + σ²I) as its objective.

    O(N³) time a step and O(N²) memory; with ``batch_size`` B a step takes O(B³) (sub-sampled covariances, Yue & Kontar,
    Rényi divergence objective, Sec. 6.1), but predictions still factorise all of K.

    Parameters
    ----------
    kernel : Kernel, optional
        Where training starts.  None: a squared exponential with a lengthscale for each column, √D standard deviations
        of it, and the mean square of y for its variance.
    noise : float, optional
        σ² where training starts.  None: a tenth of the mean square of y (or 1e-6 of the kernel's variance).
    optimizer : "lbfgs", "adam" or None
        None keeps the start.
    max_iter : int
        Iterations of each run.
    tol : float
        Relative change of the objective below which training has converged.
    learning_rate : float
        Of Adam.
    batch_size : int, optional
        Rows of a mini-batch, for Adam.  Batches know less of noise and lengthscales than the data: the optimum is
        another one, and ``max_iter`` is a budget.
    n_restarts : int
        Further starts, at log-normal distances (1 in the logarithm) from the first.
    fixed : tuple of str
        Hyperparameters that keep their start: names out of ``kernel.parameter_names`` and "noise".
    limits : dict of name to (low, high), optional
        A factor of 1e6 about the start for the others.
    normalize_y : bool
        True subtracts the mean of each output and divides by its standard deviation, as scikit-learn does; kernel_,
        noise_ and objective_ then speak of normalised targets, predictions of y.
    random_state : int, Generator, RandomState or None
    device : "cpu", "cuda" or "auto"
        Where training, prediction and `log_evidence_bounds` run; "auto" is "cuda" where CuPy works.  Data are checked
        and kept in host memory and copied to the device once a fit.  Three steps run on the host: the choice of
        inducing points and of their number, the labels of PIC's blocks, and the draws of `sample_y`.
    progress : bool
        Show a bar.
    checkpoint : path, optional
        Training writes to this file every 10 iterations, and goes on from it.

    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> model = ExactGP().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0]))
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1)
    True
    """

    kernel: Kernel | None = None
    noise: float | None = None
    batch_size: int | None = field(default=None, kw_only=True)

    def _member(self) -> Member:
        return member("exact")

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        outcomes = trainer.best_of("exact", start, self.n_restarts, lambda kernel, i: None)
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _module(self) -> Any:
        posterior: Any = self.posterior_
        return namespace(posterior.X)

    def _bracket_inducing(self) -> Float:
        return np.unique(self.X_train_, axis=0)
