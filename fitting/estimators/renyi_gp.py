"""The Gaussian process trained by the Rényi α-ELBO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fitting.estimators.inducing import InducingGP
from fitting.estimators.solving import Solving
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.objective import Member, member
from fitting.objectives.point import Parameters
from fitting.training import Run
from gpbounds.arrays import Float
from gpbounds.kernels import Kernel


@dataclass(eq=False, repr=False)
class RenyiGP(Solving, InducingGP):
    """Sparse Gaussian process with the Rényi bound of order α as its objective (Yue & Kontar, Eq. 6; R-elbo*).

    log N(y; 0, Ξ) − (α/(2β)) log|I + (β/σ²)(K − Q)| ≤ log p(y),  Ξ = Q + β(K − Q) + σ²I,  β = 1 − α; α = 1 is the
    variational bound, α = 0 is log p(y).  For every α, predictions use Q as covariance between new points and data,
    where `ExactGP` uses K.  A step takes O(N³) time, by iterations O(N²(1 + M/100)); with ``batch_size`` B O(B³), but
    predictions use all of Ξ.
    `sklearn.model_selection.GridSearchCV` can choose α.  `SparseGP` has a ``structure`` that raises the bound of α = 1
    in O(NM²); for α < 1 all of K − Q is factorised anyhow, and log p(y) itself costs no more.

    Parameters
    ----------
    alpha : float
        Rényi order in [0, 1].
    kernel, noise : as in `ExactGP`
    n_inducing : int or "auto"
        M; at most the distinct rows of X are used.  "auto": M grows, and kernel, noise and mean are trained along,
        until the gap of the final model is proved to be at most ``target_gap``; ``gap_`` is the bound.  The first round
        trains up to 100 points, each later one as many greedy points as suffice at the hyperparameters before; where
        more than N/3 would be needed, up to 6000 rows, log p(y) itself is trained.  At the end the hyperparameters are
        held, and the least number of greedy points that suffices is taken.  A remark says if none does.
        ``trained_with_`` is the M with which they were trained: training again with the final M moves them, and so the
        gap; ``fixed="all"`` keeps them.
        With ``inducing="best"``, M is the number for which the best of ``draws`` draws provably reaches
        ``target_gap``, planned before the draws, in up to three rounds.
    inducing : "auto", "greedy", "kdpp", "best", "kmeans", "uniform" or array (M, D)
        The start of the inducing points: chosen by `gpbounds.kdpp.select` with the starting kernel, or passed.
        "auto": centres of clusters ("kmeans"); for ``n_inducing="auto"`` they begin the first round only.
        "best": after training, ``draws`` k-DPP draws are made with the trained kernel and noise; of these and the
        trained points, those with the largest objective are kept, and ``bound_`` holds for them.
    learn_inducing : bool
        False keeps the inducing points at their start.
    target_gap : float
        The largest acceptable gap in nats, for "auto".
    max_inducing : int, optional
        The largest number of inducing points, for "auto".  None: the number of rows up to 6000, and 1000 above.
    solver : "auto", "cholesky" or "iterative"
        As in `ExactGP`, for both determinants of the bound.  A posterior by iterations takes M + 1 solves, and is exact
        to eight digits; α = 1 needs no solver.
    draws : int or "certain"
        R, for "best".  "certain": draws until the gap of one is proved to be at most a level, 5 draws on average;
        ``bound_`` then holds with certainty.
    delta : float
        Probability with which ``bound_`` may fail, for "best" with a number of draws.
    optimizer, max_iter, tol, learning_rate, batch_size, n_restarts, start, lengthscales, fixed, limits, normalize_y, \
mean, random_state, device, progress, checkpoint : as in `ExactGP`

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = RenyiGP(alpha=0.5, n_inducing=8).fit(X, y)
    >>> lower, upper = model.log_evidence_bounds()
    >>> bool(model.objective_ <= upper)
    True
    >>> grown = RenyiGP(alpha=0.5, n_inducing="auto", target_gap=0.1).fit(X, y)
    >>> M = len(grown.inducing_)
    >>> again = RenyiGP(alpha=0.5, kernel=grown.kernel_, noise=grown.noise_, fixed="all", n_inducing=M).fit(X, y)
    >>> grown.gap_ <= 0.1, again.kernel_ == grown.kernel_, again.noise_ == grown.noise_
    (True, True, True)
    """

    alpha: float = 0.5
    kernel: Kernel | str | None = None
    noise: Any = None
    batch_size: int | None = field(default=None, kw_only=True)

    def _member(self) -> Member:
        return member("renyi", alpha=self.alpha)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        outcome, runs = super()._search(trainer, start, X, Y)
        if self._best or isinstance(self.n_inducing, str):  # these have rounds of their own
            return outcome, runs
        return self._again(trainer, outcome, runs)

    def log_evidence_bounds(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """As `GaussianProcess.log_evidence_bounds`; unless training iterates, the orders are ``alpha`` and 1."""
        self._fitted()
        if X is None and not self._iterates(len(self.X_train_)):
            options = {"alphas": (float(self.alpha), 1.0), **options}
        return super().log_evidence_bounds(X, y, **options)

    def _bounds(self) -> float | None:
        return float(self.alpha) if self.alpha > 0.0 else None
