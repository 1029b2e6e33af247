"""PAC-GP: the exact posterior of a Gaussian process, trained by its risk certificate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fitting.bounds import RiskBound, Terms, risk_bound
from fitting.estimators.pac import PacGaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.family import Member, member, objective
from fitting.parameters import Parameters
from fitting.posterior import Posterior
from fitting.training import Run
from gpbounds.arrays import Array, Float
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes import Exact, HyperGrid
from gpbounds.pacbayes.certificate.forms import Posterior as Form


class PACGP(PacGaussianProcess):
    """Gaussian process regression whose hyperparameters and noise minimise a PAC-Bayes bound on its Gibbs risk.

    B = kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + ln E + ln(ξ(N)/δ))/N),  R_S(Q) = (1/N) Σ E ℓ(y_i, f(x_i)), f ~ Q, Q the exact
    GP posterior with noise variance σ².  O(N³) time a step and O(N²) memory.

    Claims P-08, P-14, P-20, P-22, P-44 … P-49 (Reeb et al., PAC-GP, Eqs. 5–8, §3.1).  Hypotheses: rows are independent
    draws from one law, and ``epsilon``, ``delta``, ``loss``, ``grid``, ``scaling`` and the kernel family were chosen
    before the data were seen; where training starts, σ², ``objective``, restarts and all settings of the optimiser are
    free.  Several ε go in as one sequence, at the price of ln E (P-47).  `GridSearchCV` over ``epsilon`` (or over the
    grid, the loss, the kernel family) is *not* how one is chosen: what it picks depends on the data, and nothing pays.

    Parameters
    ----------
    epsilon : float or sequence of floats
        ε of the loss, in the units of the scaled targets.  Several: a model and a certificate for each; the estimator
        predicts with the model of the first.
    delta : float in (0, 1)
        Probability that a certificate is wrong; of several, that any of them is.
    loss : "band", "squared", "exponential", "relative", "interval" or a gpbounds.losses.Loss
        "band" is 0 within ±ε of the target and 1 beyond; "relative" and "interval" have ε as a share of |y|, "interval"
        being the band of ±ε|y|.  A `Loss` carries its own ε, and ``epsilon`` is not used.
    objective : "kl" or "pinsker"
        What is made small: B, or B_Pin = R_S + √(ε/2) above it.  The certificate is B in both cases.
    grid : HyperGrid, optional
        None: ln θ from −6 to 6 in steps of 0.01 for the variance and each lengthscale, in the units of the scaled data.
    kernel : SquaredExponential or Matern, optional
        Where training starts, and the family.  None: as in `ExactGP`, moved into the grid's box.
        ``SquaredExponential(1.0, 1.0)`` has one lengthscale for all columns and the smaller grid.
    noise : float, optional
        σ² where training starts.  None: as in `ExactGP`.
    scaling : "as given", a Scaling, or a pair (inputs, outputs)
        "as given" asserts that the units were fixed before the data were seen, and the certificate's check says so
        first.  A `gpbounds.pacbayes.Scaling` says where its constants are from; the estimator applies it, and predicts
        in raw units.
    nonrigorous : bool
        Let constants from the same data pass, for comparisons; the certificate says in its first line that it is none.
    optimizer, max_iter, tol, learning_rate, n_restarts, random_state, device, progress, checkpoint : as in `ExactGP`
        ``max_iter`` once for free training and once at the rounded θ.
    fixed : tuple of str
        Names that keep their start; hyperparameters of the kernel are rounded all the same.
    limits : dict with the key "noise", optional
        A factor of 1e6 about its start otherwise.

    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = PACGP(epsilon=0.5, delta=0.05).fit(X, y)
    >>> model.certificate_.check(X, y).confirmed, model.bound_ < 0.3
    (True, True)
    """

    def __init__(
        self,
        epsilon: Any = 0.6,
        delta: float = 0.01,
        loss: Any = "band",
        objective: str = "kl",
        grid: HyperGrid | None = None,
        *,
        kernel: Kernel | None = None,
        noise: float | None = None,
        scaling: Any = "as given",
        nonrigorous: bool = False,
        optimizer: str | None = "lbfgs",
        max_iter: int = 1000,
        tol: float = 1e-9,
        learning_rate: float = 0.05,
        n_restarts: int = 0,
        fixed: tuple[str, ...] = (),
        limits: dict[str, tuple[float, float]] | None = None,
        random_state: Any = None,
        device: str = "cpu",
        progress: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.objective = objective
        self.grid = grid
        self.kernel = kernel
        self.noise = noise
        self.scaling = scaling
        self.nonrigorous = nonrigorous
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.n_restarts = n_restarts
        self.fixed = fixed
        self.limits = limits
        self.random_state = random_state
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint

    def _member(self) -> Member:
        return member("exact")

    def _bounds(self, loss: Loss, penalty: float, start: Parameters) -> Callable[[Array, Array], RiskBound]:
        goal: Any = self.objective
        given: dict[str, Any] = {"delta": self.delta, "log_prior_penalty": penalty, "objective": goal}
        return lambda X, Y: risk_bound(X, Y[:, 0], loss, method="exact", **given)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        found = trainer.best_of("exact", start, self.n_restarts, lambda kernel, i: None)
        return found[0], [outcome.run for outcome in found]

    def _terms(self, problem: RiskBound, point: Parameters) -> Terms:
        return problem.terms(point.kernel, point.noise)

    def _form(self, point: Parameters) -> Callable[[float], Form]:
        return lambda jitter: Exact(point.noise)

    def _law(self, point: Parameters, jitter: float) -> Posterior:
        return objective(*self._placed(), "exact").posterior(self.kernel_, point.noise)

    def _home(self) -> Any:
        posterior: Any = self.posterior_
        return posterior.X

    def _bracket_inducing(self) -> Float:
        return np.unique(self.X_train_, axis=0)
