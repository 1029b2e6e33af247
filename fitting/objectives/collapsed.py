"""K − Q restricted to its diagonal, or dropped: VFE, FITC, power EP, DTC.  O(NM²) time, O(M² + M·chunk + N) memory.

With r the diagonal of K − Q, D = σ² + a·r, c = 1/D, G = VCVᵀ, S = (I + G)⁻¹, w = SVCY, e = Y − Vᵀw, q_i = v_iᵀSv_i:

    F = −(P/2)[log|I + G| + N log 2πσ² + (1/a) Σ log(1 + a·r/σ²)] − ½[Σ c|e|² + |w|²]      (r/σ² for a = 0)

since yᵀΞ⁻¹y = Σ c e² + |w|², a sum of squares.  With h = a·c²(Pq + |e|²):

    V̄ = P·(V − SV)C + w(Ce)ᵀ − V·diag(h),   V̄Vᵀ = P(I − S)G + wwᵀ − V·diag(h)Vᵀ,   r̄ = ½(h − cP).

With a prior mean Hβ, Y is the targets minus Hβ, and ∂F/∂β = HᵀΞ⁻¹Y = HᵀCe.

DTC has no r̄: V̄ = −P·SVC + w(Ce)ᵀ, V̄Vᵀ = −P·SG + wwᵀ.  For a = 0 the cotangent of Kuf is a single product with V.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fitting.objectives.point import Evaluation, Gradient, Parameters
from fitting.rows.basis import Basis, Pulled
from fitting.rows.stream import Chunk, Stream
from gpbounds.arrays import Array, Float, namespace
from gpbounds.law import GramLaw, gram_law, root_law, strong, triangular
from gpbounds.linalg.products import accumulate, add_gram, add_product, product, row_products, row_sums
from gpbounds.linalg.triangular import mirrored
from gpbounds.readings import Reading, Readings
from gpbounds.rows.program import Statistics
from gpbounds.validation import choice, closed_unit, non_negative

# The members of the family, and their names in the literature.

_Structure = Literal["diagonal", "blocks", "full", "none"]
PENALTIES = ("diagonal", "blocks", "vecchia")
METHODS = ("vfe", "dtc", "fitc", "pep", "pic", "renyi", "exact")


@dataclass(frozen=True)
class Member:
    """One member of the family.

    Attributes
    ----------
    structure : "diagonal", "blocks", "full" or "none"
        The part of K − Q that is kept.
    power : float
        The power a of K − Q in [0, 1]: 0 is VFE, 1 is FITC.  For "diagonal" any a ≥ 0: the posterior of Reeb et al.,
        PAC-GP, Eq. 11 (P-27).  `member` has objectives, and takes a in [0, 1] only.
    inside : bool
        Whether the covariance of a new point with the data of its block is K rather than Q: PIC and the exact GP.
    penalty : "diagonal", "blocks", "vecchia" or None
        For VFE: the part of R = K − Q whose log|I + R/σ²| takes the place of Tr R/σ², while q stays that of VFE; see
        `fitting.objectives.structured`.  None is the penalty of the power.

    >>> member("pep", power=0.5)
    Member(structure='diagonal', power=0.5, inside=False, penalty=None)
    """

    structure: _Structure
    power: float
    inside: bool = False
    penalty: str | None = None

    def __post_init__(self) -> None:
        choice("structure", self.structure, ("diagonal", "blocks", "full", "none"))
        if self.penalty is not None:
            choice("penalty", self.penalty, PENALTIES)
            if self.structure != "diagonal" or self.power != 0.0:
                raise ValueError(
                    f"penalty: expected None for another member than VFE, got {self.penalty!r}: at a power above 0 the "
                    "objective with it is no bound on log p(y)"
                )
        allowed = non_negative if self.structure == "diagonal" else closed_unit
        object.__setattr__(self, "power", one_number("power", allowed("power", self.power)))
        if self.inside and not (self.structure in ("blocks", "full") and self.power == 1.0):
            raise ValueError(f"inside: expected blocks or full with power 1, got {self.structure!r}, {self.power}")

    @property
    def is_evidence(self) -> bool:
        """True if F = log p(y), since Q + R = K: for the exact GP, and for Rényi at α = 0."""
        return self.structure == "full" and self.power == 1.0

    @property
    def is_diagonal(self) -> bool:
        """True if q depends on K − Q through its diagonal only; at a = 0 on nothing but Q."""
        return self.structure in ("diagonal", "none") or self.power == 0.0

    @property
    def joins_rows(self) -> bool:
        """True if F depends on entries of K − Q for two different rows."""
        return not self.is_diagonal or self.penalty in ("blocks", "vecchia")

    @property
    def needs_blocks(self) -> bool:
        """True if rows belong to blocks that a user names: PIC, and the penalties of blocks."""
        return self.structure == "blocks" or self.penalty in ("blocks", "vecchia")


def member(
    method: str, *, power: float | None = None, alpha: float | None = None, structure: str | None = None
) -> Member:
    """The member with this name in the literature; "pep" takes ``power``, "renyi" the order ``alpha`` in [0, 1].

    "vfe" takes a ``structure``, which is its `Member.penalty`.

    >>> member("renyi", alpha=0.25).power, member("vfe").is_diagonal, member("vfe", structure="blocks").joins_rows
    (0.75, True, True)
    """
    choice("method", method, METHODS)
    if structure is not None and method != "vfe":
        raise ValueError(
            f"structure: expected None for method={method!r}, got {structure!r}: only the bound of 'vfe' has a penalty "
            "that a structure of K - Q makes smaller"
        )
    if structure is not None:
        choice("structure", structure, PENALTIES)
    for name, value, owner in (("power", power, "pep"), ("alpha", alpha, "renyi")):
        if (value is None) == (method == owner):
            expected = "a number in [0, 1]" if method == owner else "None"
            raise ValueError(f"{name}: expected {expected} for method={method!r}, got {value!r}")
    if method == "pep":
        return Member("diagonal", one_number("power", closed_unit("power", power)))  # type: ignore[arg-type]
    if method == "renyi":
        return Member("full", 1.0 - one_number("alpha", closed_unit("alpha", alpha)))  # type: ignore[arg-type]
    fixed = {
        "vfe": Member("diagonal", 0.0, penalty=structure),
        "dtc": Member("none", 0.0),
        "fitc": Member("diagonal", 1.0),
        "pic": Member("blocks", 1.0, inside=True),
        "exact": Member("full", 1.0, inside=True),
    }
    return fixed[method]


def row_by_row(member: Member) -> Member:
    """``member``; refuses one whose K − Q joins several rows."""
    if member.joins_rows:
        raise ValueError(
            f"method: expected 'vfe', 'fitc', 'dtc' or 'pep' for rows that are read by partitions, got {member}: its "
            "blocks would straddle partitions"
        )
    return member


def one_number(name: str, value: Any) -> float:
    """``value`` as a float; an array is refused."""
    if np.ndim(value):
        raise ValueError(f"{name}: expected one number, got shape {np.shape(value)}")
    return float(value)


# A pass that sums no Gram matrix: the triangle R of the weighted rows [v_i y_i], chunk after chunk by reflections.


@dataclass(frozen=True, eq=False)
class Triangle(Statistics):
    """R (k, M + P) with RᵀR = Σ_i c_i [v_i y_i]ᵀ[v_i y_i]; the sum of two is the triangle of both.

    Attributes
    ----------
    R : array (k, M + P)
    """

    R: Array

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle(triangular(namespace(self.R).concatenate([self.R, other.R])))


class _Stacking:
    """Takes the chunks of one group; 2n(M + P)² flops and more for n rows."""

    def __init__(self, weights: Callable[[Array], Array | float]) -> None:
        """``weights`` is the function from the diagonal of K − Q to c."""
        self.weights, self.R = weights, None

    def chunk(self, chunk: Chunk) -> None:
        """Put the weighted rows under the triangle so far."""
        xp = namespace(chunk.V)
        c = self.weights(chunk.residual)
        rows = xp.sqrt(c)[:, None] * xp.concatenate([chunk.V, chunk.Y], axis=1)
        self.R = triangular(rows if self.R is None else xp.concatenate([self.R, rows]))

    def statistics(self) -> Triangle:
        """The triangle of all chunks so far."""
        return Triangle(self.R)


# K − Q restricted to its diagonal, or dropped: VFE, FITC, power EP, DTC.  O(NM²) time, O(M² + M·chunk + N) memory.


@dataclass(frozen=True)
class Diagonal:
    """The member with power a ≥ 0 of the diagonal of K − Q; ``kept=False`` drops K − Q (DTC).

    Attributes
    ----------
    power : float
    noise : float
        σ².
    kept : bool
    """

    power: float
    noise: float
    kept: bool = True
    in_blocks: ClassVar[bool] = False

    @classmethod
    def at(cls, member: Member, point: Parameters) -> Diagonal:
        """``member`` at ``point``, whose power counts if it has one."""
        power = member.power if point.power is None else point.power
        return cls(power, point.noise, kept=member.structure != "none")

    def posterior(self, source: Stream) -> tuple[GramLaw, Moments]:
        """q(v), and the sums from which it is computed."""
        sums = self.forward(source)
        return self.law(sums, lambda: self.stacked(source), source.basis.readings), sums

    def evaluate(self, source: Stream, *, gradient: bool = True) -> Evaluation:
        """F, and its derivatives in (kernel, log σ², Z)."""
        q, sums = self.posterior(source)
        middle = self.middle(source.basis, q, sums, source.N, gradient=gradient)
        return self.finish(middle, self.backward(source, middle))

    # The steps of `evaluate`.  Sums of several sets of rows can be added between them.

    def forward(self, source: Stream) -> Moments:
        """The first pass."""
        return source.reduce(lambda: _Forward(self, source))

    def stacked(self, source: Stream) -> Triangle:
        """The further pass that strong data need, for the triangle R."""
        return source.reduce(lambda: _Stacking(self.precision))

    def law(self, sums: Moments, triangle: Callable[[], Triangle], readings: Readings | None = None) -> GramLaw:
        """q(v), with the ``triangle`` of all rows if the data are strong (`gpbounds.law.strong`)."""
        G = mirrored(sums.G)
        if readings is None or namespace(G) is np:
            return root_law(G, triangle().R) if strong(G) else gram_law(G, sums.b)
        q = gram_law(G, sums.b, readings, replaced=True)  # before the host knows whether the data are strong
        return root_law(G, triangle().R) if q.is_strong else q

    def middle(self, basis: Basis, q: GramLaw, sums: Moments, N: int, *, gradient: bool) -> Middle:
        """What the second pass over N rows needs; without ``gradient`` it sums only what the value needs."""
        lifted = None
        if gradient and self.power == 0.0:
            scale, turn = 1.0 / self.noise, q.gained.copy() if self.kept else -q.covariance
            turn, weights = q.P * scale * basis.lift(turn), scale * basis.lift(q.mean.T.copy())
            lifted = Lifted(*(part.astype(basis.dtype, copy=False) for part in (turn, weights)))
        return Middle(basis, q, lifted, sums.penalty, N, gradient)

    def backward(self, source: Stream, middle: Middle) -> Fit:
        """The second pass: `Adjoints`, or without gradient `Fit`."""
        if not middle.gradient:
            return source.reduce(lambda: _Fit(self, middle.q))
        return source.reduce(lambda: Reverse(self, source, middle))

    def finish(self, middle: Middle, back: Fit) -> Evaluation:
        """F from the sums of both passes."""
        q, readings = middle.q, middle.basis.readings
        parts = q.chol.log_determinant, middle.penalty, back.fit, (q.mean * q.mean).sum()
        log_det, penalty, fit, squares = (readings.take(part) for part in parts)
        gradient = self._gradient(middle, back, penalty) if isinstance(back, Adjoints) else None
        volume = float(log_det) + middle.N * math.log(2.0 * math.pi * self.noise) + float(penalty)
        return Evaluation(-0.5 * (q.P * volume + float(fit) + float(squares)), gradient)

    def precision(self, residual: Array) -> Array:
        """c = 1/(σ² + a·r)."""
        return 1.0 / (self.noise + self.power * residual)

    def penalty(self, chunk: Chunk, source: Stream) -> Array | float:
        """(1/a) Σ log(1 + a·r/σ²), its limit Σ r/σ² at a = 0, and 0 for DTC."""
        residual, xp = chunk.residual, namespace(chunk.V)
        if not self.kept:
            return 0.0
        if self.power == 0.0:
            return residual.sum() / self.noise
        return xp.log1p(self.power / self.noise * residual).sum() / self.power

    def _gradient(self, middle: Middle, back: Adjoints, penalty: Reading) -> Gradient:
        q, readings = middle.q, middle.basis.readings
        in_mean = None if isinstance(back.prior_mean, float) else readings.take(back.prior_mean)
        unread, trace = readings.take(back.noise), readings.take(q.gained.trace() if self.power == 0.0 else 0.0)
        outer = q.mean @ q.mean.T - q.P * q.gained
        if self.kept:  # (I − S)G = G − (I − S)
            outer += q.P * q.G
        if not isinstance(back.heavy, float):
            outer -= mirrored(back.heavy)

        def in_noise() -> Float:
            noise = float(unread)
            if self.power == 0.0:
                noise -= 0.5 * q.P * (middle.N - float(trace))
                if self.kept:
                    noise += 0.5 * q.P * float(penalty)
            return np.array([noise])

        gradient = middle.basis.finish(back.pulled, outer).gradient(in_noise, readings)
        return gradient if in_mean is None else replace(gradient, prior_mean=in_mean.numbers)


@dataclass(frozen=True, eq=False)
class Middle:
    """Results of the first pass that the second pass and `Diagonal.finish` use.

    Attributes
    ----------
    basis : Basis
    q : GramLaw
    lifted : Lifted or None
        For a = 0, if derivatives are computed.
    penalty : number
        (1/a) Σ log(1 + a·r/σ²); see `Diagonal.penalty`.
    N : int
        Number of rows.
    gradient : bool
    """

    basis: Basis
    q: GramLaw
    lifted: Lifted | None
    penalty: Array | float
    N: int
    gradient: bool


@dataclass(frozen=True, eq=False)
class Moments(Statistics):
    """VCVᵀ (only its upper triangle is set), VCY, and the penalty of the residuals.

    At a = 0, C is a multiple of I, and the sums are divided by σ² at the end.
    """

    G: Array
    b: Array
    penalty: Array | float


class _Forward:
    """Sums VCVᵀ and VCY."""

    def __init__(self, member: Diagonal, source: Stream) -> None:
        self.member, self.source = member, source
        self.G, self.b = source.square(), namespace(source.X).zeros((source.basis.rank, source.P))
        self.penalty: Array | float = 0.0

    def chunk(self, chunk: Chunk) -> None:
        V, residual, xp = chunk.V, chunk.residual, namespace(chunk.V)
        self.penalty += self.member.penalty(chunk, self.source)
        if self.member.power == 0.0:
            add_gram(self.G, V)
            accumulate(self.b, V.T, chunk.Y.astype(V.dtype, copy=False))
            return
        c = self.member.precision(residual)
        scaled = chunk.scratch("W")
        xp.multiply(V, xp.sqrt(c)[:, None], out=scaled)
        add_gram(self.G, scaled)
        accumulate(self.b, V.T, c[:, None] * chunk.Y)

    def statistics(self) -> Moments:
        if self.member.power == 0.0:
            self.G /= self.member.noise
            self.b /= self.member.noise
        return Moments(self.G, self.b, self.penalty)


@dataclass(frozen=True, eq=False)
class Fit(Statistics):
    """Σ c|e|²."""

    fit: Array | float


class _Fit:
    """Sums c|e|²."""

    def __init__(self, member: Diagonal, q: GramLaw) -> None:
        self.member, self.q, self.fit = member, q, 0.0

    def chunk(self, chunk: Chunk) -> None:
        e = chunk.Y - chunk.V @ self.q.mean
        self.fit += (self.member.precision(chunk.residual) * row_sums(e, e)).sum()

    def statistics(self) -> Fit:
        return Fit(self.fit)


@dataclass(frozen=True, eq=False)
class Adjoints(Fit):
    """Sums of the second pass: pulled-back cotangents, V·diag(h)Vᵀ (upper triangle), a part of ∂F/∂log σ², HᵀCe."""

    pulled: Pulled
    heavy: Array | float
    noise: Array | float
    prior_mean: Array | float


@dataclass(frozen=True)
class Lifted:
    """For a = 0, the matrices (M, M) and (P, M) with which V·turn + e·weights is the cotangent of Kuf."""

    turn: Array
    weights: Array


class Reverse:
    """The second pass: V̄ chunk by chunk, or for a = 0 the cotangent of Kuf."""

    def __init__(self, member: Diagonal, source: Stream, middle: Middle) -> None:
        q, lifted = middle.q, middle.lifted
        self.member, self.P, self.q, self.lifted = member, source.P, q, lifted
        self.pull = source.pull_back()
        self.heavy: Array | float = source.square() if lifted is None else 0.0
        self.noise: Array | float = 0.0
        self.fit: Array | float = 0.0
        self.prior_mean: Array | float = 0.0
        if lifted is None:
            q.covariance  # noqa: B018  (computed once, before several threads read it)

    def chunk(self, chunk: Chunk) -> None:
        """Add the rows of one chunk."""
        e = chunk.Y - chunk.V @ self.q.mean.astype(chunk.V.dtype, copy=False)
        squares = row_sums(e, e)
        if self.lifted is None:
            self._weighted(chunk, e, squares)
        else:
            self.common(chunk, e, squares.sum(), self.lifted)

    def common(self, chunk: Chunk, e: Array, total: Array, lifted: Lifted) -> None:
        """Add the rows of one chunk for a = 0; e are the residuals, ``total`` the sum of their squares."""
        xp, s2 = namespace(e), self.member.noise
        self.fit += total / s2
        self.prior_mean += chunk.in_prior_mean(lambda: e / s2)
        C = product(chunk.V, lifted.turn, chunk.scratch("W"))
        self.pull.lifted(chunk.X, add_product(e.astype(C.dtype, copy=False), lifted.weights, C), chunk.K, chunk.V)
        if self.member.kept:
            self.pull.diagonal(chunk.X, xp.full(e.shape[0], -0.5 * self.P / s2))

    def _weighted(self, chunk: Chunk, e: Array, squares: Array) -> None:
        V, xp, P = chunk.V, namespace(e), self.P
        a, s2 = self.member.power, self.member.noise
        c = self.member.precision(chunk.residual)
        self.fit += (c * squares).sum()
        self.prior_mean += chunk.in_prior_mean(lambda: c[:, None] * e)
        shrunk = product(V, self.q.covariance, chunk.scratch("W"))  # SV
        reach = P * row_products(V, shrunk) + squares
        h = a * c * c * reach
        self.noise += 0.5 * s2 * (c * (c * reach - P)).sum()
        self.noise += 0.5 * P * (1.0 - a) * (chunk.residual * c).sum()
        xp.subtract(V, shrunk, out=shrunk)
        shrunk *= (P * c)[:, None]
        scaled = chunk.scratch("S")
        xp.multiply(V, h[:, None], out=scaled)
        shrunk -= scaled
        add_product(c[:, None] * e, self.q.mean.T, shrunk)
        xp.multiply(V, xp.sqrt(h)[:, None], out=scaled)
        add_gram(self.heavy, scaled)
        self.pull.features(chunk.X, shrunk, chunk.K, chunk.V)
        self.pull.diagonal(chunk.X, 0.5 * (h - P * c))

    def statistics(self) -> Adjoints:
        """The sums so far."""
        noise = self.noise if self.lifted is None else 0.5 * self.fit
        return Adjoints(self.fit, self.pull.statistics(), self.heavy, noise, self.prior_mean)
