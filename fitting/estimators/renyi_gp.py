"""The Gaussian process trained by the Rényi α-ELBO."""

from __future__ import annotations

import os
from typing import Any

from fitting.estimators.inducing import InducingGP
from fitting.family import Member, member
from gpbounds.kernels import Kernel


class RenyiGP(InducingGP):
    """Sparse Gaussian process with the Rényi bound of order α as its objective (Yue & Kontar, Eq. 6; R-elbo*).

    log N(y; 0, Ξ) − (α/(2β)) log|I + (β/σ²)(K − Q)| ≤ log p(y),  Ξ = Q + β(K − Q) + σ²I,  β = 1 − α; α = 1 is the
    variational bound, α = 0 log p(y) itself.  Predictions read Q between new points and data, whatever α: `ExactGP`
    reads K.  O(N³) time a step; with ``batch_size`` B O(B³), but predictions still factorise Ξ.  Choose α by
    `sklearn.model_selection.GridSearchCV`.

    Parameters
    ----------
    alpha : float
        Order in [0, 1].
    kernel, noise : as in `ExactGP`
    n_inducing : int or "auto"
        M; at most the distinct rows of X are taken.  "auto": in up to three rounds, greedy points are chosen until
        `gpbounds.renyi.gap` is at most ``target_gap``, and all is trained.  A heuristic: the gap is proved for the
        hyperparameters of the moment, and these are fitted.
    inducing : "greedy", "kdpp", "kmeans", "uniform" or array (M, D)
        Where inducing points start: by `gpbounds.kdpp.select` at the starting kernel, or given.
    learn_inducing : bool
        False leaves them there.
    target_gap : float
        In nats, for "auto".
    max_inducing : int
        For "auto".
    optimizer, max_iter, tol, learning_rate, batch_size, n_restarts, fixed, limits, normalize_y, random_state, device, \
progress, checkpoint : as in `ExactGP`

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = RenyiGP(alpha=0.5, n_inducing=8).fit(X, y)
    >>> lower, upper = model.log_evidence_bounds()
    >>> bool(model.objective_ <= upper)
    True
    """

    def __init__(
        self,
        alpha: float = 0.5,
        kernel: Kernel | None = None,
        noise: float | None = None,
        *,
        n_inducing: int | str = 100,
        inducing: Any = "greedy",
        learn_inducing: bool = True,
        target_gap: float = 1.0,
        max_inducing: int = 1000,
        optimizer: str | None = "lbfgs",
        max_iter: int = 1000,
        tol: float = 1e-9,
        learning_rate: float = 0.05,
        batch_size: int | None = None,
        n_restarts: int = 0,
        fixed: tuple[str, ...] = (),
        limits: dict[str, tuple[float, float]] | None = None,
        normalize_y: bool = False,
        random_state: Any = None,
        device: str = "cpu",
        progress: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.noise = noise
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.target_gap = target_gap
        self.max_inducing = max_inducing
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_restarts = n_restarts
        self.fixed = fixed
        self.limits = limits
        self.normalize_y = normalize_y
        self.random_state = random_state
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint

    def _member(self) -> Member:
        return member("renyi", alpha=self.alpha)

    def _bracket_options(self) -> dict[str, Any]:
        return {"alphas": (float(self.alpha), 1.0)}

    def _order(self) -> float:
        return float(self.alpha) if self.alpha > 0.0 else 1.0
