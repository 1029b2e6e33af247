"""PAC-SGP: a sparse posterior of a Gaussian process, trained by its risk certificate."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators.inducing import WithInducing
from fitting.estimators.kinds import Free, FromData, Kind, OfRowNoise
from fitting.estimators.pac import PacGaussianProcess
from fitting.estimators.partitioned import some_rows
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.objective import Member, member
from fitting.objectives.point import Parameters
from fitting.rows.columns import Columns
from fitting.rows.data import Held
from fitting.training import Run
from gpbounds.arrays import Array, Float
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.kernels import Kernel
from gpbounds.pacbayes import HyperGrid, MeanGrid
from gpbounds.pacbayes.certificate.rows import Partitions, Scaled, raw
from gpbounds.row_noise import is_per_row
from gpbounds.rows import Source
from gpbounds.rows.source import changed
from gpbounds.validation import choice, count, flag

POSTERIORS = ("fitc", "vfe", "interpolated", "free")

SHARE = 4
"""Ratio of the numbers of inducing points of successive trainings."""

_FIRST_POWER = 1.0
"""The power of FITC, at which the training of a power starts."""

FEWEST = 8
"""Least number of inducing points of a training with fewer than ``n_inducing``."""


@dataclass(eq=False, repr=False)
class SparsePACGP(PacGaussianProcess, WithInducing):
    """Sparse Gaussian process whose hyperparameters, noise and inducing inputs minimise a PAC-Bayes bound on its risk.

    B is that of `PACGP`, with Q(u) = N(a, S) at M inducing inputs Z and f given u as under the prior, so that KL(Q‖P)
    is the KL of u.  A step takes O(NM²) time and O(M² + M·chunk + N) memory.

    Claims P-08, P-14, P-25 … P-27, P-44 … P-49 (Reeb et al., PAC-GP, Eqs. 9–14, §3.1); hypotheses as in `PACGP`.  The
    choice of M, Z, σ², ``posterior``, ``power``, a and S costs nothing, by whatever means it is made: the theorem holds
    for any law Q (P-49).

    Parameters
    ----------
    n_inducing : int
        M; at most the distinct rows of X are used, and a quarter or less if ``fewer`` finds a smaller bound so.
    posterior : "fitc", "vfe", "interpolated" or "free"
        The kind of Q(u): the posterior of FITC, of VFE, or of another ``power`` of K − Q (P-27); or free.
        A free Q starts at that of FITC, which training can only improve; it has M(M+3)/2 more numbers to train, and a
        jitter of 1e-8 variances on Kuu is part of it.
    power : float >= 0 or "trained", optional
        Power p of K − Q, for "interpolated" only: Q is the posterior under noise of variance σ² + p(k(x, x) − q(x, x)).
        0 is VFE, 1 is FITC, None is ½.  "trained": p ≥ 0 minimises the bound together with the other parameters, from
        p = 1; it shapes Q alone, and so costs nothing (P-49).
    epsilon, delta, loss, relaxation, grid, kernel, noise, scaling, mean, prior, share, order, \
nonrigorous : as in `PACGP`
        With posterior "free" σ² is no part of Q: ``noise`` is that of the FITC posterior from which training starts,
        and noisy observations cannot be predicted.  For ``prior="data"`` a `SparseGP` is trained by the evidence that
        ``posterior`` names ("free": that of VFE, "interpolated": power EP), ``fewer`` is ignored, and any number of
        rows is taken, also by partitions.
    inducing : "auto", "greedy", "kdpp", "kmeans", "uniform" or array (M, D)
        The start of the inducing inputs; an array is in the units of the scaled inputs.  "auto" is "kmeans": centres of
        clusters lie where the rows are, whose losses the bound averages; from greedy points, which lie far out, B ends
        up to .1 higher.
    learn_inducing : bool
    fewer : bool
        Train with M/4 inducing points, too, then with M/16 and so on, as long as B falls, and keep the least B.  On
        noisy data every point adds to KL(Q‖P), and training needs more than 1000 iterations to move superfluous ones
        to where they add nothing.  Not for posterior "free", whose Q may equal P in any direction, and not for
        ``inducing`` as an array.
    optimizer, max_iter, tol, learning_rate, n_restarts, start, fixed, limits, random_state, device, progress, \
checkpoint : as in `PACGP`
    batch_size : int, optional
        Rows of a mini-batch, for Adam and posterior "free": R_S is estimated from random rows (P-46).  Other posteriors
        depend on all rows.  The certificate always covers all N rows.

    Attributes
    ----------
    power_ : float
        p of the first model, except for posterior "free".

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = SparsePACGP(n_inducing=6, epsilon=0.5, delta=0.05).fit(X, y)
    >>> model.certificate_.check(X, y).confirmed, model.bound_ < 0.3
    (True, True)
    """

    n_inducing: int = 100
    posterior: str = "fitc"
    fewer: bool = field(default=True, kw_only=True)
    power: Any = field(default=None, kw_only=True)
    epsilon: Any = field(default=0.6, kw_only=True)
    delta: float = field(default=0.01, kw_only=True)
    loss: Any = field(default="band", kw_only=True)
    relaxation: str = field(default="kl", kw_only=True)
    grid: HyperGrid | None = field(default=None, kw_only=True)
    kernel: Kernel | None = field(default=None, kw_only=True)
    noise: Any = field(default=None, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)
    tol: float | None = field(default=0.001, kw_only=True)
    normalize_y: ClassVar[bool] = False  # type: ignore[misc]
    lengthscales: ClassVar[str] = "auto"  # type: ignore[misc]
    _partitions: ClassVar[bool] = True

    def _member(self) -> Member:
        choice("posterior", self.posterior, POSTERIORS)
        if self.posterior == "interpolated":
            if self._trains_power:
                return Member("diagonal", getattr(self, "power_", _FIRST_POWER))
            if isinstance(self.power, str):
                raise ValueError(f"power: expected a number >= 0 or 'trained', got {shown(self.power)}")
            return Member("diagonal", 0.5 if self.power is None else self.power)
        if self.power is not None:
            raise ValueError(
                f"power: expected None unless posterior='interpolated', got {shown(self.power)} for {self.posterior!r}"
            )
        return member("vfe" if self.posterior == "vfe" else "fitc")

    @property
    def _trains_power(self) -> bool:
        return isinstance(self.power, str) and self.power == "trained"

    def _given(self, X: Float, Y: Float) -> Parameters:
        given = super()._given(X, Y)
        return replace(given, power=_FIRST_POWER) if self._trains_power else given

    def _kind(self) -> Kind:
        rows = self._unit_rows()
        if rows is not None:
            return OfRowNoise(self._member(), rows, self.noise_)
        return Free() if self.posterior == "free" else FromData(self._member())

    def _check_arguments(self) -> None:
        super()._check_arguments()
        count("n_inducing", self.n_inducing)
        flag("fewer", self.fewer)
        if is_per_row(self.noise) and self.posterior == "free":
            raise ValueError(
                f"noise: expected one number for posterior='free', got shape {np.shape(self.noise)}: this Q has no "
                "noise, which only gives its start"
            )
        if self.batch_size is not None and self.posterior != "free":
            raise ValueError(
                f"batch_size: expected None unless posterior='free', got {shown(self.batch_size)} for posterior="
                f"{self.posterior!r}: every loss and the KL depends on all rows at once, so that no subset of rows "
                "estimates the bound"
            )

    def _check_source(self, rows: Source) -> None:
        raw(rows)  # refuses several targets, and numbers that are not exact

    def _held_in_units(self, rows: Source) -> tuple[Held, Columns, Columns]:
        self._raw = raw(rows)
        assert isinstance(self._raw, Partitions)
        self._set_scalings()
        in_units = changed(rows, Scaled(self.inputs_, self.outputs_))
        on_grid = isinstance(self.mean, MeanGrid)
        chosen_rows = some_rows(Columns(in_units), Columns(in_units, True), 0) if on_grid else (None, None)
        self._declared = self._declared_mean(*chosen_rows)
        if self._declared is not None:
            in_units = changed(rows, Scaled(self.inputs_, self.outputs_, self._declared))
        scaled = self._raw.scaled(self.inputs_, self.outputs_, self._declared)
        held = Held(scaled, rows.N, rows.D, rows.P, True, np.zeros(1), np.ones(1))
        return held, Columns(in_units), Columns(in_units, True)

    def _as_fitted(self, rows: Source) -> Source:
        return changed(rows, Scaled(self.inputs_, self.outputs_, self.certificate_.mean))

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        X, Y = self._some(X, Y, trainer.session)
        best, runs = super()._search(trainer, start, X, Y)
        if not (self.fewer and isinstance(self.inducing, str) and self.posterior != "free" and trainer.optimizer):
            return best, runs
        assert best.parameters.Z is not None
        M = int(best.parameters.Z.shape[0]) // SHARE
        while M >= FEWEST and runs[-1].status != "interrupted":
            few = copy(self)
            few.n_inducing, few.n_restarts = M, 0
            ending = replace(trainer.ending, least=best.run.value)
            prefix = f"{trainer.prefix}{M} inducing points, "
            try:
                outcome, more = super(SparsePACGP, few)._search(
                    replace(trainer, otherwise=(), prefix=prefix, ending=ending), start, X, Y
                )
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                break
            runs = [*runs, *more]
            if not outcome.run.value > best.run.value:
                break
            best, M = outcome, M // SHARE
        return best, runs

    def _latent(
        self,
        X: ArrayLike | Array,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noisy: bool = False,
        noise: ArrayLike | None = None,
    ) -> Any:
        """As in the base class; ``noisy`` is refused for posterior "free", whose Q has no noise."""
        if flag("noisy", noisy) and self.posterior == "free":
            raise ValueError("noisy: expected False, got True: posterior='free' has a law of f only, and no noise")
        return super()._latent(X, return_std, return_cov, noisy=noisy, noise=noise)
