"""PAC-SGP: a sparse posterior of a Gaussian process, trained by its risk certificate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from fitting.bounds import Terms, free_bound, risk_bound
from fitting.estimators.free_trainer import FreeTrainer
from fitting.estimators.inducing import WAYS, drawn
from fitting.estimators.issuing import sparse_form, whitened_form
from fitting.estimators.pac import PacGaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.family import Member, member, objective
from fitting.parameters import Parameters
from fitting.posterior import Posterior
from fitting.training import Run
from fitting.whitened import WhitenedPosterior
from gpbounds.arrays import Array, Float
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes import HyperGrid
from gpbounds.pacbayes.certificate.forms import Posterior as Form
from gpbounds.validation import choice, count
from gpbounds.whitening import inducing

FORMS = ("fitc", "vfe", "interpolated", "free")

JITTER = 1e-8
"""On Kuu for form "free", in variances of the kernel at the start.  Without it inducing inputs draw together, and what
q says of their difference is lost to rounding: training stalls, and the certificate's allowances grow."""


class SparsePACGP(PacGaussianProcess):
    """Sparse Gaussian process whose hyperparameters, noise and inducing inputs minimise a PAC-Bayes bound on its risk.

    B as in `PACGP`, with Q(u) = N(a, S) at M inducing inputs Z and f given u as under the prior: KL(Q‖P) is that of u.
    O(NM²) time a step, O(M² + M·chunk + N) memory.

    Claims P-08, P-14, P-25 … P-27, P-44 … P-49 (Reeb et al., PAC-GP, Eqs. 9–14, §3.1); hypotheses as in `PACGP`.  M, Z,
    σ², ``form``, ``power``, a and S cost nothing (P-49): Q may be any law, and so may its choice, by any means.

    Parameters
    ----------
    n_inducing : int
        M; at most the distinct rows are used.
    form : "fitc", "vfe", "interpolated" or "free"
        What Q(u) is: the posterior that FITC, VFE or a model between (a = ``power``, P-27) gives; or free, from FITC's
        on, which can only make B smaller and has M(M+3)/2 more numbers to train.  A jitter of 1e-8 variances on Kuu is
        then part of Q.
    power : float in [0, 1], optional
        a, for "interpolated" alone (left out: ½): 0 is VFE, 1 is FITC.
    epsilon, delta, loss, objective, grid, kernel, noise, scaling, nonrigorous : as in `PACGP`
        With form "free" σ² is no part of Q: ``noise`` is that of the FITC posterior which training starts from, and
        there are no predictions of noisy observations.
    inducing : "greedy", "kdpp", "kmeans", "uniform" or array (M, D)
        Where they start; an array is in the units of the scaled inputs.
    learn_inducing : bool
    optimizer, max_iter, tol, learning_rate, n_restarts, fixed, limits, random_state, device, progress, checkpoint : \
as in `PACGP`
    batch_size : int, optional
        Rows of a mini-batch, for Adam and form "free": R_S is estimated from random rows (P-46).  Other forms have a Q
        that depends on all rows.  The certificate is always about all N.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = SparsePACGP(n_inducing=6, epsilon=0.5, delta=0.05).fit(X, y)
    >>> model.certificate_.check(X, y).confirmed, model.bound_ < 0.3
    (True, True)
    """

    def __init__(
        self,
        n_inducing: int = 100,
        form: str = "fitc",
        *,
        power: float | None = None,
        epsilon: Any = 0.6,
        delta: float = 0.01,
        loss: Any = "band",
        objective: str = "kl",
        grid: HyperGrid | None = None,
        kernel: Kernel | None = None,
        noise: float | None = None,
        scaling: Any = "as given",
        nonrigorous: bool = False,
        inducing: Any = "greedy",
        learn_inducing: bool = True,
        optimizer: str | None = "lbfgs",
        max_iter: int = 1000,
        tol: float = 1e-9,
        learning_rate: float = 0.05,
        batch_size: int | None = None,
        n_restarts: int = 0,
        fixed: tuple[str, ...] = (),
        limits: dict[str, tuple[float, float]] | None = None,
        random_state: Any = None,
        device: str = "cpu",
        progress: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_inducing = n_inducing
        self.form = form
        self.power = power
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.objective = objective
        self.grid = grid
        self.kernel = kernel
        self.noise = noise
        self.scaling = scaling
        self.nonrigorous = nonrigorous
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_restarts = n_restarts
        self.fixed = fixed
        self.limits = limits
        self.random_state = random_state
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint

    @property
    def _is_free(self) -> bool:
        return self.form == "free"

    def _member(self) -> Member:
        choice("form", self.form, FORMS)
        if self.form == "interpolated":
            return member("pep", power=0.5 if self.power is None else self.power)
        if self.power is not None:
            raise ValueError(f"power: expected None unless form='interpolated', got {self.power!r} for {self.form!r}")
        return member("vfe" if self.form == "vfe" else "fitc")

    def _check_arguments(self) -> None:
        super()._check_arguments()
        count("n_inducing", self.n_inducing)
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, WAYS)

    def _batch(self, N: int) -> int | None:
        if self.batch_size is not None and not self._is_free:
            raise ValueError(
                f"batch_size: expected None unless form='free', got {self.batch_size!r} for {self.form!r}: its Q, and "
                "so its KL and every loss, depends on all rows at once, and no part of them estimates the bound"
            )
        return super()._batch(N)

    def _bounds(self, loss: Loss, penalty: float, start: Parameters) -> Callable[[Array, Array], Any]:
        goal: Any = self.objective
        given: dict[str, Any] = {"delta": self.delta, "log_prior_penalty": penalty, "objective": goal}
        if self._is_free:
            jitter = JITTER * start.kernel.max_variance
            return lambda X, Y: free_bound(X, Y[:, 0], loss, jitter=jitter, **given)
        return lambda X, Y: risk_bound(X, Y[:, 0], loss, method=self._member(), **given)

    def _trainer_kind(self) -> type[Trainer]:
        return FreeTrainer if self._is_free else Trainer

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        draw = drawn(self, trainer, X)
        first = Parameters(start.kernel, start.noise, draw(start.kernel, 0))
        found = trainer.best_of("sparse", first, self.n_restarts, draw)
        return found[0], [outcome.run for outcome in found]

    def _terms(self, problem: Any, point: Any) -> Terms:
        if self._is_free:
            return problem.terms(point.kernel, point.Z, point.mean, point.factor)
        return problem.terms(point.kernel, point.noise, point.Z)

    def _form(self, point: Any) -> Callable[[float], Form]:
        if self._is_free:
            return whitened_form(point.Z, point.mean, point.factor)
        return sparse_form(point.Z, point.noise, self._member().power)

    def _law(self, point: Any, jitter: float) -> Posterior:
        if self._is_free:
            side = inducing(self.kernel_, point.Z, jitter)
            return WhitenedPosterior(side, point.noise, point.mean, point.factor)
        problem = objective(*self._placed(), self._member(), jitter=jitter)
        return problem.posterior(self.kernel_, point.noise, point.Z)

    def predict(
        self, X: ArrayLike | Array, return_std: bool = False, return_cov: bool = False, *, noisy: bool = False
    ) -> Any:
        """As `GaussianProcess.predict`; ``noisy`` is refused for form "free", whose Q has no noise."""
        if noisy and self._is_free:
            raise ValueError("noisy: expected False, got True: form='free' has a law of f, and no noise was trained")
        return super().predict(X, return_std, return_cov, noisy=noisy)
