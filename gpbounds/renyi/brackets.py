"""The log evidence of one data set from both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import host
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.renyi.blocks import Moments, moments, products
from gpbounds.renyi.orders import Order, secant
from gpbounds.renyi.quadratic import solve, two_sided
from gpbounds.renyi.residual import nystrom
from gpbounds.renyi.streamed import BLOCK, Fits, Streamed, streamed
from gpbounds.validation import closed_unit

QUANTITY = "log p(y)"
LARGE = 10_000
"""Above this N, members that need all of K are left to who asks for them."""

CHEAP = ("trace", "determinant", "weighted")
BLOCKS = ("eigenvalue", "tangent", "quadratic")
ORDERS = ("order", "secant")
UPPER_CLAIMS = {
    "trace": "R-eq8",
    "determinant": "R-eq8",
    "weighted": "N-block",
    "eigenvalue": "R-eq8",
    "tangent": "N-conc",
    "quadratic": "N-quad",
    "order": "R-eq8",
    "secant": "N-conc",
}
LOWER_CLAIMS = {"elbo": "R-elbo*", "determinant": "R-amgm", "quadratic": "N-quad"}
GRID = (1.0, 0.25, 1.0 / 16.0, 1.0 / 64.0, 0.0)
"""Shifts tried by "weighted", in units of T; "trace" reads the first, L_VI the last."""


@dataclass(frozen=True)
class Bracket:
    """Every member of both sides, each computed when it is asked for."""

    problem: Streamed
    alphas: tuple[float, ...]
    dense: Callable[[float], Order]

    @cached_property
    def cheap(self) -> Fits:
        """Quadratic forms at the shifts of the grid."""
        return self.problem.fits(self.problem.white.trace * np.array(GRID), spread=True)

    @cached_property
    def moments(self) -> Moments:
        """K streamed once."""
        problem = self.problem
        return moments(problem, problem.solve(problem.Y) * np.sqrt(problem.noise))

    @property
    def volume(self) -> float:
        """−½ log|2πB|, for all outputs."""
        return -0.5 * self.problem.P * self.problem.log_det

    def less(self, log_det: float) -> float:
        """−½ log_det for all outputs."""
        return -0.5 * self.problem.P * log_det

    @cached_property
    def base(self) -> float:
        """−½log|2πB| − ½yᵀB⁻¹y."""
        return self.volume - 0.5 * float(self.cheap.quadratic[-1].sum())

    @cached_property
    def rounding(self) -> float:
        """Allowance for rounding, on either side."""
        return self.problem.rounding(float(self.cheap.quadratic[-1].sum()))

    @cached_property
    def variational(self) -> float:
        """L_VI."""
        return self.base + self.less(self.problem.ratio)

    def trace(self) -> float:
        """Titsias's upper bound."""
        return self.volume - 0.5 * float(self.cheap.quadratic[0].sum())

    def determinant(self) -> float:
        """And part of the determinant."""
        return self.trace() + self.less(float(np.log1p(self.problem.weighted_trace)))

    def weighted(self) -> float:
        """And blocks of Δ in place of its trace."""
        fits = self.cheap
        curvature = fits.quadratic - fits.shifted + fits.spread
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(curvature > 0.0, fits.quadratic * (fits.quadratic / curvature), 0.0)
        best = float(np.maximum(values, fits.quadratic[:1]).max(axis=0).sum())
        return self.volume - 0.5 * best + self.less(float(np.log1p(self.problem.weighted_trace)))

    def eigenvalue(self) -> float:
        """λ in place of T, and the determinant by Tr(B⁻¹Δ) and Tr((B⁻¹Δ)²)."""
        found = self.moments
        fit = float(self.problem.fits(found.largest * self.problem.noise).quadratic.sum())
        return self.volume - 0.5 * fit + self.less(found.log_det[0])

    def tangent(self) -> float:
        """L_VI + S₁."""
        found = self.moments
        return self.base + self.less(found.s - 0.5 * found.squares) + 0.5 * float(found.forms.sum())

    @property
    def streamed(self) -> Moments | None:
        """`moments`, where they have been computed."""
        return self.__dict__.get("moments")

    @property
    def log_det(self) -> tuple[float, float]:
        """Both sides of log|K_n| − log|B|, from `moments` where they are at hand, else from T."""
        if self.streamed is not None:
            return self.streamed.log_det
        n = self.problem.white.rank
        above = n * float(np.log1p(self.problem.ratio / n)) if n else 0.0
        return float(np.log1p(self.problem.weighted_trace)), above

    @cached_property
    def solved(self) -> tuple[float, float]:
        """Both sides of ½yᵀK_n⁻¹y, summed over the outputs."""
        problem = self.problem
        v, product = solve(problem, products(problem.white.inducing.kernel, problem.white.X, problem.noise))
        shift = problem.white.trace if self.streamed is None else self.streamed.largest * problem.noise
        below, above = two_sided(problem, v, product, shift)
        return float(below.sum()), float(above.sum())

    def quadratic(self) -> float:
        """The solve from below, with the best determinant at hand."""
        return self.volume - self.solved[0] + self.less(self.log_det[0])

    def uppers(self, chosen: Sequence[str]) -> dict[str, float]:
        """The members asked for, by name."""
        values = {name: getattr(self, name)() for name in (*CHEAP, *BLOCKS) if name in chosen}
        orders = [self.dense(a) for a in self.alphas if a < 1.0]
        if "order" in chosen:
            values |= {f"order {o.alpha:g}": o.upper for o in orders}
        if "secant" in chosen:
            ladder = [*orders, self.dense(1.0)]
            values |= {f"secant {a.alpha:g}, {b.alpha:g}": secant(a, b) for a, b in pairwise(ladder)}
        return values

    def lowers(self, chosen: Sequence[str]) -> dict[str, float]:
        """The ELBOs asked for, and what the members asked for say of the other side."""
        values = {f"elbo {a:g}": self.variational if a == 1.0 else self.dense(a).elbo for a in self.alphas}
        values["determinant"] = self.base + self.less(self.log_det[1])
        if "quadratic" in chosen:
            values["quadratic"] = self.volume - self.solved[1] + self.less(self.log_det[1])
        return values


def evidence(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    *,
    noise: float,
    alphas: ArrayLike = (1.0,),
    jitter: Jitter = "auto",
    members: str | Sequence[str] = "auto",
    block: int = BLOCK,
) -> tuple[Bound, Bound]:
    """Lower and upper bound on the log evidence log p(y) = log N(y; 0, K + σ²I), with inducing points for Q.

    Lower, the greatest of
        elbo α           L_α for each order asked for (R-elbo*); α = 1 is L_VI, O(NM²), others need K, O(N³)
        determinant      −½log|2πB| − ½yᵀB⁻¹y − ½n log(1 + T/(nσ²)), n ≥ rank Δ (R-amgm); never below L_VI   O(NM²)
        quadratic        the same with yᵀK_n⁻¹y from above by conjugate gradients (`two_sided`)

    Upper, the least of
        trace            −½log|2πB| − ½yᵀ(B + T I)⁻¹y (R-eq8 at α = 1, Titsias)                             O(NM²)
        determinant      and −½log(1 + T/(σ² + λ_max(Q))) of log|K_n|/|B|                                   O(NM²)
        weighted         and (wᵀy)²/(wᵀBw + (Σ_b √(w_bᵀΔ_bb w_b))²), w = (B + tI)⁻¹y       O(NM² + N·block)
        eigenvalue       λ ≥ λ_max(Δ) in place of T (R-eq8), and (s²/q)log(1 + q/s)           K streamed once, O(N²M)
        tangent          L_VI + S₁ (N-conc)                                                   K streamed once, O(N²M)
        quadratic        yᵀK_n⁻¹y from below by conjugate gradients (`two_sided`)        O(N²) a product, 25 (*)
        order α          R-eq8 at the orders < 1 asked for                                                  O(N³)
        secant α₁, α₂    L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂), neighbours among the orders and 1 (N-conc)       O(N³)

    B = Q + σ²I, Δ = K − Q, T = Tr Δ, s = Tr(B⁻¹Δ), q = Tr((B⁻¹Δ)²).  Once K has been streamed, s and q sharpen the
    determinants of both sides (`log1p_sum_bounds`).  (*) 100 up to N = 2000.  All equal log p(y) when Δ = 0, e.g.
    Z = X.  With P outputs the bounds are on the sum of P evidences with one kernel: determinants count P times.  O(NM²)
    members take O(M² + N) memory, those that stream K O(NM), orders below 1 O(N²).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
        Orders below 1 need dense algebra, which runs on the host: X, y and Z are then copied there once.
    y : array (N,) or (N, P)
    Z : array (M, D)
        Inducing inputs.
    noise : float
        σ², in squared units of y.
    alphas : number or numbers in [0, 1]
        Orders of the ELBOs; each below 1 needs K.
    jitter : float or "auto"
        On Kuu; every member stays valid.  L_VI never rises and ``trace`` never falls with it.
    members : "auto", "cheap", "all" or names
        "cheap": those in O(NM²).  "auto": all up to N = 10 000, the cheap ones above.
    block : int
        Rows of the blocks b of Δ that "weighted" forms; larger is tighter, and rows in random order are best.

    Returns
    -------
    (Bound, Bound)
        Lower, upper; ``terms`` holds every member by name, T/σ², the jitter, and the allowance for rounding by which
        both ends are moved apart, ½(4 + √N)·eps·(1 + λ_max(Q)/σ²)(yᵀB⁻¹y + NP); ``claim`` is the winner's.

    Raises
    ------
    ValueError
        for wrong arguments, and a noise variance below the rounding error of K.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> lower, upper = evidence(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1)
    >>> round(float(lower), 4), round(float(upper), 4)  # log p(y) = -3.2002
    (-3.2002, -3.2002)
    >>> lower, upper = evidence(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1, members="cheap")
    >>> round(float(lower), 4), round(float(upper), 4), round(lower.terms["elbo 1"], 4)
    (-3.5044, -2.6765, -4.5099)
    """
    orders = _orders(alphas)
    chosen = _chosen(members, orders, len(np.shape(X)) and np.shape(X)[0])
    return assemble(bracket(kernel, X, y, Z, noise, orders, jitter, block), chosen)


def bracket(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    noise: float,
    orders: tuple[float, ...],
    jitter: Jitter,
    block: int = BLOCK,
) -> Bracket:
    """The checked arguments as a `Bracket`."""
    problem = streamed(kernel, X, y, Z, noise, jitter, block)
    records: dict[float, Order] = {}

    def dense(alpha: float) -> Order:
        if alpha not in records:
            first = next(iter(records.values()), None)
            record = nystrom(kernel, host(X), host(Z), problem.white.jitter) if first is None else first.record
            records[alpha] = Order(record, host(problem.Y), problem.noise, alpha)
        return records[alpha]

    return Bracket(problem, orders, dense)


def assemble(found: Bracket, chosen: Sequence[str]) -> tuple[Bound, Bound]:
    """The two records from the members chosen."""
    white = found.problem.white
    said = {"T/σ²": found.problem.ratio, "jitter": white.jitter, "rounding": found.rounding}
    uppers = found.uppers(chosen)  # first: what it computes of K serves the lower side, too
    lowers = found.lowers(chosen)
    return _winner("lower", lowers, LOWER_CLAIMS, said), _winner("upper", uppers, UPPER_CLAIMS, said)


def _winner(
    side: Literal["lower", "upper"], values: dict[str, float], claims: dict[str, str], said: dict[str, float]
) -> Bound:
    best = (max if side == "lower" else min)(values, key=lambda name: values[name])
    claim = claims[best.partition(" ")[0]]
    assumptions = ("y is modelled by the kernel and the noise variance that are given.",)
    value = values[best] + (said["rounding"] if side == "upper" else -said["rounding"])
    return Bound(value, side, 1.0, claim, values | said, assumptions, quantity=QUANTITY)


def _orders(alphas: ArrayLike) -> tuple[float, ...]:
    values = closed_unit("alphas", alphas)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"alphas: expected at least one number in [0, 1], got {alphas!r}")
    return tuple(sorted({float(a) for a in np.atleast_1d(values)}))


def _chosen(members: str | Sequence[str], orders: tuple[float, ...], N: int) -> tuple[str, ...]:
    below = ORDERS if orders[0] < 1.0 else ()
    if isinstance(members, str):
        plans = {"auto": CHEAP + (BLOCKS if N <= LARGE else ()) + below, "cheap": CHEAP, "all": CHEAP + BLOCKS + below}
        if members in plans:
            return plans[members]
    names = (members,) if isinstance(members, str) else tuple(members)
    allowed = (*CHEAP, *BLOCKS, *ORDERS)
    if not names or not set(names) <= set(allowed):
        raise ValueError(
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, allowed))}, got {members!r}"
        )
    if set(names) & set(ORDERS) and not below:
        raise ValueError(f"alphas: expected an order below 1 for the members 'order' and 'secant', got {orders}")
    return names
