"""PAC-GP: the exact posterior of a Gaussian process, trained by its risk certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitting.estimators.kinds import Full, Kind
from fitting.estimators.pac import PacGaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.evaluation import Parameters
from fitting.family import Member, member
from fitting.training import Run
from gpbounds.arrays import Float, namespace
from gpbounds.kernels import Kernel
from gpbounds.pacbayes import HyperGrid


@dataclass(eq=False, repr=False)
class PACGP(PacGaussianProcess):
    """Gaussian process regression whose hyperparameters and noise minimise a PAC-Bayes bound on its Gibbs risk.

    B = kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + ln E + ln(ξ(N)/δ))/N),  R_S(Q) = (1/N) Σ E ℓ(y_i, f(x_i)), f ~ Q, Q the exact
    GP posterior with noise variance σ².  O(N³) time a step and O(N²) memory.

    Claims P-08, P-14, P-20, P-22, P-44 … P-49 (Reeb et al., PAC-GP, Eqs. 5–8, §3.1).  Hypotheses: rows are independent
    draws from one law, and ``epsilon``, ``delta``, ``loss``, ``grid``, ``scaling`` and the kernel family were chosen
    before the data were seen; where training starts, σ², ``relaxation``, restarts and all settings of the optimiser are
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
    relaxation : "kl" or "pinsker"
        Training minimises B, or Pinsker's bound B_Pin ≥ B of `fitting.bounds.Target`.  The certificate states B in both
        cases.
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

    epsilon: Any = 0.6
    delta: float = field(default=0.01, kw_only=True)
    loss: Any = field(default="band", kw_only=True)
    relaxation: str = field(default="kl", kw_only=True)
    grid: HyperGrid | None = field(default=None, kw_only=True)
    kernel: Kernel | None = field(default=None, kw_only=True)
    noise: float | None = field(default=None, kw_only=True)

    def _member(self) -> Member:
        return member("exact")

    def _kind(self) -> Kind:
        return Full()

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        outcomes = trainer.best_of("exact", start, self.n_restarts, lambda kernel, i: None)
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _module(self) -> Any:
        posterior: Any = self.posterior_
        return namespace(posterior.X)

    def _bracket_inducing(self) -> Float:
        return np.unique(self.X_train_, axis=0)
