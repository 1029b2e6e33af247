"""The Rényi bound of order α as an objective at large N: estimates of log|Ξ| and log|A| with standard errors.

    F = Σ_p log N(y_p; 0, Ξ) − P·α/(2β)·log|A|,  Ξ = σ²I + βK + αQ,  A = I + (β/σ²)(K − Q),  β = 1 − α      (R-elbo*)

Both determinants are estimated as that of the exact GP is; K and Q enter by their entries, Q = VVᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.iterative.evidence import groups, spread
from fitting.iterative.solution import (
    PROBES,
    Cotangent,
    Layout,
    Solution,
    is_narrow,
    layout,
    of_evidence,
    pulled,
    solution,
)
from fitting.objectives.collapsed import Member, one_number
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import law_of
from fitting.objectives.objective import Objective
from fitting.objectives.point import Evaluation, Gradient, Parameters, finite_or_refused
from fitting.posterior import InducingPosterior, Posterior
from fitting.prior_means import PriorMean, derivatives
from fitting.rows.basis import InducingBasis
from fitting.rows.data import Data, partition
from fitting.rows.stream import Stream
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.iterative.probes import Probes
from gpbounds.iterative.solves import blocks_of, solver
from gpbounds.kernels import Kernel
from gpbounds.law import gram_law
from gpbounds.readings import read
from gpbounds.validation import positive
from gpbounds.whitening import slices

# a·k + b·q as a kernel of rows (x, v), q = v·v': the covariances Ξ and I + (β/σ²)(K − Q) of the Rényi bound.


@dataclass(frozen=True, eq=False)
class Mixture(Kernel):
    """a·k(x, x') + b·v·v' for rows [x, v], x of ``dim`` entries; positive semi-definite at the caller's rows.

    `log_parameters` are those of k, and the logarithm of a factor of the whole covariance, which is 1.

    Attributes
    ----------
    kernel : Kernel
        k.
    dim : int
    own, shared : float
        a and b.

    >>> from gpbounds.kernels import SquaredExponential
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.5]])
    >>> Mixture(SquaredExponential(), 1, 2.0, -1.0)(rows).round(4)
    array([[1.75  , 0.9631],
           [0.9631, 1.75  ]])
    """

    kernel: Kernel
    dim: int
    own: float
    shared: float

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        first: Any = X1
        second: Any = X1 if X2 is None else X2
        K = self.kernel(first[:, : self.dim], second[:, : self.dim])
        K *= self.own
        K += (self.shared * first[:, self.dim :]) @ second[:, self.dim :].T
        return K

    def diag(self, X: ArrayLike | Array) -> Array:
        rows: Any = X
        v = rows[:, self.dim :]
        return self.own * self.kernel.diag(rows[:, : self.dim]) + self.shared * (v * v).sum(axis=1)

    @property
    def max_variance(self) -> float:
        return (self.own + max(self.shared, 0.0)) * self.kernel.max_variance

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*self.kernel.parameter_names, "factor")

    @property
    def log_parameters(self) -> Float:
        return np.append(self.kernel.log_parameters, 0.0)

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        whole = float(((self(X1, X2) if value is None else value) * cotangent).sum())
        parameters, moved = self.kernel.pull(X1[:, : self.dim], X2[:, : self.dim], cotangent)
        return np.append(self.own * parameters, whole), moved


# The Rényi bound of order α as an objective at large N: estimates of log|Ξ| and log|A| with standard errors.

CHUNK = 1024
"""Rows of V that are computed and pulled back at a time."""
_SOME = 50
"""Rows that take the place of inducing inputs that are not chosen yet."""
GAIN = 1e-8
"""Largest error of the eigenvalues of V(σ²I + β(K − Q))⁻¹Vᵀ that the solves for predictions aim at."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """Ξ and A at one point, with V (N, M); A is None where α = 0."""

    xi: Solution
    a: Solution | None
    V: Array
    basis: InducingBasis


@dataclass(frozen=True, eq=False)
class IterativeRenyi:
    """F of order α < 1 with estimated determinants: an `fitting.objectives.point.Minimised` of (kernel, noise, Z).

    `prepared` freezes blocks, conditioning sets, probes and Lanczos steps; F is then smooth, with exact derivatives.

    Attributes
    ----------
    data : Data
    member : Member
        Its power is β.
    frozen : pair of Layout or None
        For Ξ and for A: the same blocks and probes, with steps of their own.
    ordered : Data or None
        In the order of the blocks.
    """

    data: Data
    member: Member
    frozen: tuple[Layout, Layout] | None = None
    ordered: Data | None = None

    held = ()

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    @property
    def probes(self) -> Probes | None:
        """The source of the probes."""
        return None if self.frozen is None else self.frozen[0].seed

    @property
    def beta(self) -> float:
        """β = 1 − α."""
        return self.member.power

    def prepared(self, point: Parameters, entropy: tuple[int, ...]) -> IterativeRenyi:
        """The objective with blocks and steps that suit ``point``, and probes that depend on ``entropy``.

        Where ``point`` has no inducing inputs yet, some rows take their place for the choice of the steps.
        """
        first = layout(point.kernel, self.data.X, Probes(entropy, PROBES))
        order = namespace(self.data.X).asarray(first.blocks.order)
        data = replace(self.data, X=self.data.X[order], Y=self.data.Y[order])
        ready = replace(self, frozen=(first, first), ordered=data)
        Z = self.data.X[:: max(1, self.N // _SOME)] if point.Z is None else point.Z
        centred = ready.about(point.prior_mean)
        pair = centred._pair(point.kernel, point.noise, Z, lambda pair, source: pair, derivatives=False)
        steps = [each.tridiagonal.steps if each is not None else 0 for each in (pair.xi, pair.a)]
        return replace(ready, frozen=(first.with_steps(steps[0]), first.with_steps(steps[1])))

    def is_stale(self, point: Parameters, negligible: float = 0.0) -> bool:
        """Whether ``point`` needs more steps, or other blocks: as for `IterativeEvidence`."""
        assert self.frozen is not None
        centred = self.about(point.prior_mean)
        pair = centred._pair(point.kernel, point.noise, point.Z, lambda pair, source: pair, derivatives=False)
        if not all(is_narrow(each, within=10.0) for each in (pair.xi, pair.a) if each is not None):
            return True
        error = pair.xi.log_evidence_error
        if pair.a is not None:
            error += 0.5 * self.data.Y.shape[1] * self._weight * pair.a.log_det_error
        return self.frozen[0].is_stale(point.kernel, host(self.data.X)) and error > 0.25 * negligible

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """F at (kernel, noise, Z), with its derivatives in log hyperparameters, log noise and Z.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu or a block does not factorise.
        """
        s2 = one_number("noise", positive("noise", noise))

        def value(pair: _Pair, source: Stream) -> Evaluation:
            total = pair.xi.log_evidence
            if pair.a is not None:
                total -= 0.5 * self.data.Y.shape[1] * self._weight * pair.a.log_det
            jitter = pair.basis.inducing.chol.jitter
            if not gradient:
                return Evaluation(total, None, jitter)
            xi = pair.xi.columns(range(pair.xi.layout.m)) if pair.xi.layout.m else None
            cotangents = [of_evidence(pair.xi, xi)]
            others: list[Cotangent] = []
            if pair.a is not None:
                a = pair.a.columns(range(pair.a.layout.m)) if pair.a.layout.m else None
                others = [Cotangent(a, -0.5 * self.data.Y.shape[1] * self._weight)]
            (slopes,) = self._slopes(pair, source, cotangents, others, s2)
            mean = self.data.prior_mean
            in_mean = None if mean is None else derivatives(mean.pulled(source.X, pair.xi.weights))
            return Evaluation(total, replace(slopes, prior_mean=in_mean), jitter)

        return finite_or_refused(self._pair(kernel, s2, Z, value, derivatives=gradient))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """−F at ``point``."""
        centred = self.about(point.prior_mean)
        return -centred.evaluate(point.kernel, point.noise, point.Z, gradient=gradient)

    def about(self, mean: PriorMean | None) -> IterativeRenyi:
        """As `Objective.about`."""
        ordered = None if self.ordered is None else self.ordered.about(mean)
        return replace(self, data=self.data.about(mean), ordered=ordered)

    def standard_errors(self, point: Parameters) -> Gradient:
        """Standard errors of the derivatives, estimated from groups of probes."""
        half = -0.5 * self.data.Y.shape[1]
        exact = None if point.prior_mean is None else 0.0 * point.prior_mean.coefficients

        def errors(pair: _Pair, source: Stream) -> Gradient:
            chosen = groups(pair.xi.layout.m)
            xi = [Cotangent(pair.xi.columns(some), half, deterministic=False) for some in chosen]
            a = []
            if pair.a is not None:
                a = [Cotangent(pair.a.columns(some), half * self._weight, deterministic=False) for some in chosen]
            each = self._slopes(pair, source, xi, a, point.noise)
            if not each:
                zero = np.zeros(point.kernel.log_parameters.size)
                return Gradient(zero, np.zeros(1), namespace(source.X).zeros_like(point.Z), prior_mean=exact)
            assert each[0].Z is not None
            shape, xp = each[0].Z.shape, namespace(source.X)
            moved = spread(np.array([host(some.Z).ravel() for some in each])).reshape(shape)
            kernel, noise = (spread(np.array([getattr(g, name) for g in each])) for name in ("kernel", "likelihood"))
            return Gradient(kernel, noise, xp.asarray(moved), prior_mean=exact)

        return self._pair(point.kernel, point.noise, point.Z, errors, derivatives=True)

    def batch(self, rows: Array) -> Objective:
        """N/n times F of the n given rows alone, by Cholesky factors."""
        whole = replace(self.data, parts=partition(self.N, self.N))
        return Objective(whole, law_of(self.member), Evidence()).batch(rows)

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """The law q* (R-qstar): q(v) has precision I + V D⁻¹Vᵀ with D = σ²I + β(K − Q), by M + P certified solves.

        With residuals R of the solves for V, the matrix Ĝ that takes the place of G = V D⁻¹Vᵀ has
        0 ≤ G − Ĝ ≤ (|R|²/σ²)I: variances are never too small.
        """
        s2 = one_number("noise", positive("noise", noise))

        def posterior(source: Stream) -> InducingPosterior:
            basis: Any = source.basis
            X, Y, xp = self.data.X, self.data.residuals, namespace(self.data.X)
            blocks = blocks_of(kernel, X)
            order = xp.asarray(blocks.order)
            V = _features(basis, X[order])
            rows, M = xp.concatenate([X[order], V], axis=1), int(V.shape[1])
            known = solver(Mixture(kernel, int(X.shape[1]), self.beta, -self.beta), rows, noise=s2, blocks=blocks)
            targets = xp.concatenate([V, Y[order]], axis=1)
            sizes = host((targets * targets).sum(axis=0)) / s2

            def allowed(V: Array, R: Array, errors: Float) -> Float:
                return GAIN * sizes

            both, left, _ = known.solve(targets, allowed)
            solved, remainder = both[:, :M], left[:, :M]
            G = solved.T @ (V + remainder)
            b = V.T @ both[:, M:] + solved.T @ left[:, M:]
            return InducingPosterior(basis.inducing, s2, gram_law(0.5 * (G + G.T), b), self.data.single)

        result, _ = self.data.sweep(kernel, Z, posterior)
        return result

    @property
    def _weight(self) -> float:
        """α/β."""
        return (1.0 - self.beta) / self.beta

    def _pair(self, kernel: Kernel, noise: float, Z: Any, use: Any, *, derivatives: bool) -> Any:
        """``use(pair, source)`` for Ξ and A at (kernel, noise, Z)."""
        if self.frozen is None or self.ordered is None:
            raise ValueError("objective: expected one that `prepared` has returned: it has neither blocks nor probes")
        data, (first, second), beta = self.ordered, self.frozen, self.beta
        X, dim = data.X, int(data.X.shape[1])
        xp = namespace(X)

        def work(source: Stream) -> Any:
            basis: Any = source.basis
            V = _features(basis, X)
            rows = xp.concatenate([X, V], axis=1)
            mixed = Mixture(kernel, dim, beta, 1.0 - beta)
            shared: dict[str, Any] = {"derivatives": derivatives}
            xi = solution(mixed, rows, data.residuals, noise=noise, layout=first, space=self.data.space, **shared)
            other = None
            if beta < 1.0:
                residual = Mixture(kernel, dim, beta / noise, -beta / noise)
                other = solution(residual, rows, data.Y[:, :0], noise=1.0, layout=second, **shared)
            return use(_Pair(xi, other, V, basis), source)

        result, _ = data.sweep(kernel, Z, work)
        return result

    def _slopes(
        self, pair: _Pair, source: Stream, xi: Sequence[Cotangent], a: Sequence[Cotangent], noise: float
    ) -> list[Gradient]:
        """Derivatives for each cotangent of Ξ, plus those for the cotangent of A with the same number, if any."""
        first, moved = _pulled(pair.xi, xi, pair.V, 1.0 - self.beta)
        kernels, noises = first[:, :-2], first[:, -1].copy()
        if a:
            assert pair.a is not None
            second, also = _pulled(pair.a, a, pair.V, -self.beta / noise)
            kernels = kernels + second[:, :-2]
            noises -= second[:, -2]
            moved = [one + other for one, other in zip(moved, also, strict=True)]
        gradients = []
        for parameters, slope, cotangent in zip(kernels, noises, moved, strict=True):
            whole = _through_features(pair, source, cotangent)
            gradients.append(Gradient(parameters + read(whole.kernel), np.array([slope]), whole.Z))
        return gradients


def _features(basis: InducingBasis, X: Array) -> Array:
    """V (N, M)."""
    xp, M = namespace(X), basis.rank
    basis.prepare()
    V = xp.empty((X.shape[0], M))
    for rows in slices(int(X.shape[0]), CHUNK):
        part = V[rows]
        basis.fill(X[rows], xp.empty(part.shape), part)
    return V


def _pulled(solved: Solution, cotangents: Sequence[Cotangent], V: Array, shared: float) -> tuple[Float, list[Array]]:
    """Derivatives by `derivatives.pulled`, and the cotangent of V through ``shared``·VVᵀ for each cotangent."""
    xp = namespace(V)
    pieces: list[list[tuple[Array, Array]]] = [[] for _ in cotangents]

    def visit(number: int, rows: Array, cotangent: Array) -> None:
        pieces[number].append((rows, (cotangent + cotangent.T) @ V[rows]))

    parameters = pulled(solved, cotangents, visit)
    moved = []
    for each, mine in zip(cotangents, pieces, strict=True):
        total, sides = xp.zeros_like(V), each.sides()
        if sides is not None:
            total += 2.0 * (sides[0] @ (sides[1].T @ V))
        for rows, part in sorted(mine, key=lambda pair: int(pair[0][-1])):
            total[rows] += part
        moved.append(shared * total)
    return parameters, moved


def _through_features(pair: _Pair, source: Stream, cotangent: Array) -> Any:
    """Derivatives through V = L⁻¹Kuf, from its cotangent (N, M)."""
    basis, V = pair.basis, pair.V
    xp, X = namespace(V), pair.xi.X[:, : source.X.shape[1]]
    pull, outer = basis.pull_back(), cotangent.T @ V
    for rows in slices(int(V.shape[0]), CHUNK):
        points, part = xp.ascontiguousarray(X[rows]), xp.ascontiguousarray(cotangent[rows])
        K = basis.kernel.fill(points, basis.inducing.Z, xp.empty(part.shape))
        pull.features(points, part.copy(), K, V[rows])
    return basis.finish(pull.statistics(), outer)
