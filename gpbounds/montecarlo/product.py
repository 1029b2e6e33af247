"""Exact draws from q̃ ∝ N(m, v)·p(y|f), for many (y, m, v) at once: uPS, by rejection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, as_number
from gpbounds.errors import NonFinite, shown
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.likelihoods.special import log_cdf, softplus
from gpbounds.montecarlo.arguments import triples
from gpbounds.numerics.search import Part, halved, newton

# Proposals that cover N(m, v)·p(y|f): widened or shifted Gaussians, and flat densities with exponential tails.

_PROPOSALS = ("best", "widened", "shifted", "flat")
MARGIN = 4e-15
"""Bound on the rounding error of log(q·p/envelope) at its peak, relative to the numbers subtracted."""
CLOSE = 1e-18
"""A search for a peak ends when the peak can be higher by at most half of this."""
SLACK = 1e-9
"""Bound on the relative error of E p; it enlarges the width and the height of flat proposals."""
ROUNDS = 300


@dataclass(frozen=True, eq=False)
class Envelope:
    """A proposal g with N(m, v)·p ≤ K·g everywhere, one for each (y, m, v).

    g is N(m + shift, n·v), or where ``width`` > 0 the law of m + shift ± width·x with density ½min(1, e^(1−x)), x > 0.

    Attributes
    ----------
    shift : float or array
        0 for a widened proposal; for a shifted one vℓ' where it touches: the mode of N(m, v)·p, less m.
    n : float or array
        The proposal's variance over v: 1 for a shifted one, and v̂/v < 1 for a Gaussian likelihood, whose product
        is the proposal itself.
    touch : float or array
        Where, as f − m, the envelope touches the product.
    width : float or array
        Half-width of a flat proposal; 0 for a Gaussian one.
    log_K : float or array
        log of the least K, rounded up.
    acceptance : float or array
        E p/K, the probability that a proposal is accepted.
    """

    shift: Any
    n: Any
    touch: Any
    width: Any
    log_K: Any
    acceptance: Any

    def __str__(self) -> str:
        rate = np.asarray(self.acceptance)
        return f"{rate.size} envelope(s), acceptance {rate.min():.3g} to {rate.max():.3g}."


def cover(
    likelihood: Likelihood, y: ArrayLike, m: ArrayLike, v: ArrayLike, proposal: str = "best", n: ArrayLike | None = None
) -> Envelope:
    """The proposal with the highest acceptance of its kind, for rejection sampling from q̃ ∝ N(m, v)·p(y|f).

    Widened: N(m, nv), for n ≥ 1 with the least constant

        K*(n) = √n sup_f p(y|f) e^(−(f−m)²(1−1/n)/(2v)),   acceptance E p/K*(n)  (D-14; Wei et al., §3).

    log K* is convex in a = 1 − 1/n, being −½ log(1−a) plus a supremum of linear functions of a; at its minimum n =
    max(1, d²/v), where the supremum is at f* = m + d.  So for a log-concave p, d is the one root of ℓ'(m + d) =
    sign(d)(|d|/v − 1/|d|)⁺.  With the paper's K = max p the inequality is false for n > 1 (D-12), and with K fixed no
    width helps: the acceptance is E p/K for all widths (D-13).  Shifted, for log-concave p: N(f̂, v) at the mode f̂ = m
    + vℓ'(f̂) of the product; since ℓ lies below its tangent,

        N(f|m, v)·p ≤ N(f|f̂, v)·e^(ℓ(f̂) − (f̂−m)²/(2v))  (N-shift),

    accepted with probability E e^(ℓ(f) − ℓ(f̂) − ℓ'(f̂)(f−f̂)), f ~ N(f̂, v): near (1 − vℓ'')^−½ however far m is from
    the target.  Any other tangent gives a valid bound, too.
    Flat, for log-concave p: with w = E p/(N(f̂|m, v)p(y|f̂)) the product is at most its peak times
    min(1, e^(1 − |f−f̂|/w)), of area 4w (Devroye, 1984, for log-concave densities of known mode): accepted with
    probability ¼ always, so that the best of the three is accepted at least as often (N-flat).
    For a Gaussian likelihood the product is a Gaussian, and all of its draws are accepted.  log K is rounded up, so
    that rounding cannot make a ratio exceed 1.

    Parameters
    ----------
    likelihood : Likelihood
    y, m, v : arrays
        Targets, means and variances > 0.
    proposal : "best", "widened", "shifted" or "flat"
        Best: for each (y, m, v) the proposal with the highest acceptance.
    n : array, optional
        A width n ≥ 1 for the widened proposal, in place of the best one.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, a shifted or flat proposal for Student's t, n < 1 or n together with another proposal.

    >>> from gpbounds.likelihoods import Bernoulli, Poisson
    >>> probit = Bernoulli("probit")
    >>> [round(cover(probit, 1, -4.0, 1.0, "widened", n).acceptance, 4) for n in (1.0, 4.0, None)]
    [0.0023, 0.1822, 0.1921]
    >>> [round(cover(Poisson("exp"), 5, -4.0, 1.0, name).acceptance, 4) for name in ("widened", "shifted")]
    [0.1051, 0.7036]
    """
    likelihood = as_likelihood(likelihood)
    validation.choice("proposal", proposal, _PROPOSALS)
    concave = not isinstance(likelihood, StudentT)
    if proposal in ("shifted", "flat") and not concave:
        raise ValueError(f'proposal: expected "widened" for StudentT, which is not log-concave, got {shown(proposal)}')
    if n is not None and proposal != "widened":
        raise ValueError(f'n: expected proposal="widened" with a width of your own, got {shown(proposal)}')
    y_, m_, v_ = triples(likelihood, y, m, np.asarray(validation.positive("v", v)))
    width = None if n is None else np.asarray(validation.positive("n", n))
    if width is not None:
        if (width < 1.0).any():
            raise ValueError(f"n: expected widths >= 1, got {width.min():g}")
        y_, m_, v_, width = validation.broadcast(y=y_, m=m_, v=v_, n=width)
    shape = y_.shape
    targets, means, spreads = (a.ravel() for a in (y_, m_, v_))
    log_mean = np.asarray(likelihood.log_expected_density(targets, means, spreads))
    if isinstance(likelihood, Gaussian) and proposal == "best":
        parts = _conjugate(likelihood, targets, means, spreads, log_mean)
    elif proposal in ("shifted", "flat"):
        mode = _mode(likelihood, targets, means, spreads)
        shifted = proposal == "shifted"
        parts = _shifted(likelihood, *mode) if shifted else _flat(likelihood, *mode, log_mean)
    else:
        parts = _widened(likelihood, targets, means, spreads, None if width is None else width.ravel())
        if proposal == "best" and concave:
            mode = _mode(likelihood, targets, means, spreads)
            for other in (_shifted(likelihood, *mode), _flat(likelihood, *mode, log_mean)):
                better = other[-1] < parts[-1]
                parts = tuple(np.where(better, b, a) for a, b in zip(parts, other, strict=True))
    acceptance = np.minimum(np.exp(log_mean - parts[-1]), 1.0)
    if not np.isfinite(acceptance).all():
        i = int(np.argmin(np.isfinite(acceptance)))
        raise NonFinite(
            f"m, v: expected numbers at which the envelope of {proposal!r} is within the range of doubles, got "
            f"m = {means[i]:.3g}, v = {spreads[i]:.3g}"
        )
    return Envelope(*(as_number(part.reshape(shape)) for part in (*parts, acceptance)))


Parts = tuple[Float, ...]
"""shift, n, touch, width, log K."""


def _conjugate(likelihood: Gaussian, y: Float, m: Float, v: Float, log_mean: Float) -> Parts:
    shift = (y - m) * v / (v + likelihood.noise)
    return shift, likelihood.noise / (v + likelihood.noise), shift, 0.0 * v, log_mean


def _mode(likelihood: Likelihood, y: Float, m: Float, v: Float) -> tuple[Float, Float, Float, Float]:
    """(y, m, v, d), where m + d is the mode of the product."""
    return y, m, v, _crossing(likelihood, y, m, v, lambda d, part: (d / v[part], 1.0 / v[part]))


def _shifted(likelihood: Likelihood, y: Float, m: Float, v: Float, d: Float) -> Parts:
    top = np.asarray(likelihood.log_density(y, m + d))
    slope = np.asarray(likelihood.derivatives(y, m + d)[0])  # any tangent is valid, so d need not be the mode exactly
    return v * slope, np.ones(d.shape), d, 0.0 * d, _rounded_up(top, slope * (0.5 * v * slope - d), top)


def _flat(likelihood: Likelihood, y: Float, m: Float, v: Float, d: Float, log_mean: Float) -> Parts:
    top = np.asarray(likelihood.log_density(y, m + d))
    height = top - 0.5 * d * d / v
    slack = SLACK + MARGIN * (np.abs(log_mean) + np.abs(top) + np.abs(height))
    width = np.sqrt(2.0 * np.pi * v) * np.exp(log_mean - height + slack)
    return d, np.ones(d.shape), d, width, log_mean + np.log(4.0) + 2.0 * slack


def _widened(likelihood: Likelihood, y: Float, m: Float, v: Float, n: Float | None) -> Parts:
    if isinstance(likelihood, StudentT):
        return _widened_student(likelihood, y, m, v, n)
    if n is None:
        s = np.sqrt(v)

        def pull(d: Float, part: Part) -> tuple[Float, Float]:
            beyond = np.abs(d) > s[part]
            return np.where(beyond, d / v[part] - 1.0 / d, 0.0), np.where(beyond, 1.0 / v[part] + 1.0 / (d * d), 0.0)

        n = np.maximum(_crossing(likelihood, y, m, v, pull) ** 2 / v, 1.0)
    with np.errstate(over="ignore"):
        a = (1.0 - 1.0 / n) / v
    d = _crossing(likelihood, y, m, v, lambda d, part: (a[part] * d, a[part]))
    top = np.asarray(likelihood.log_density(y, m + d))
    return np.zeros(d.shape), n, d, 0.0 * d, _rounded_up(top + 0.5 * np.log(n), -0.5 * a * d * d, top)


def _rounded_up(first: Float, second: Float, top: Float) -> Float:
    """first + second plus a bound on the rounding of these, of ℓ = ``top`` and of the sum."""
    with np.errstate(invalid="ignore"):
        return first + second + MARGIN * (1.0 + np.abs(first) + np.abs(second) + np.abs(top))


Pull = Callable[[Float, Part], tuple[Float, Float]]


def _crossing(likelihood: Likelihood, y: Float, m: Float, v: Float, pull: Pull) -> Float:
    """The d with ℓ'(m + d) = pull(d), pull non-decreasing and 0 at 0, ℓ' decreasing; ``pull`` gives its slope, too."""

    def gaps(d: Float, part: Part) -> tuple[Float, Float]:
        first, second, _ = likelihood.derivatives(y[part], m[part] + d)
        pulled, stiffness = pull(d, part)
        return np.asarray(first) - pulled, stiffness - np.asarray(second)

    everywhere = slice(None)
    with np.errstate(all="ignore"):
        up = gaps(np.zeros(m.shape), everywhere)[0] > 0.0
        far = np.sqrt(v)
        for _ in range(ROUNDS):
            inside = np.where(up, gaps(far, everywhere)[0] > 0.0, gaps(-far, everywhere)[0] < 0.0)
            inside &= far < 1e3 * (1.0 + np.abs(m) + np.sqrt(v) + np.abs(y))  # p has no peak: its slope underflows
            if not inside.any():
                break
            far = np.where(inside, 2.0 * far, far)
        low, high = np.where(up, 0.0, -far), np.where(up, far, 0.0)
        start = 0.5 * (low + high)
        return newton(
            gaps, low, high, start, close=CLOSE, rounds=ROUNDS, sought="the peak of an envelope at y, m and v"
        )


def _widened_student(likelihood: StudentT, y: Float, m: Float, v: Float, n: Float | None) -> Parts:
    """The peak is a root of a cubic; a = 1 − 1/n by halving, on the sign of 1/(1−a) − d²/v, d the highest root."""
    gap = y - m
    if n is None:

        def beyond(a: Float) -> Any:
            d = _highest(likelihood, gap, a, v)[0]
            return ~(v > (1.0 - a) * d * d)

        n = 1.0 / (1.0 - halved(beyond, np.zeros(v.shape), np.ones(v.shape))[0])
    d, height = _highest(likelihood, gap, 1.0 - 1.0 / n, v)
    log_n = 0.5 * np.log(n)
    return 0.0 * d, n, d, 0.0 * d, _rounded_up(height + log_n, 0.0 * d, np.abs(height) + log_n)


def _highest(likelihood: StudentT, gap: Float, a: Float, v: Float) -> tuple[Float, Float]:
    """The d where ℓ(m + d) − ad²/(2v) is highest, and that value.

    d is a root of (ν+1)v(g−d) = ad(νσ² + (g−d)²), g = y − m.  All roots lie between 0 and g.  With e = (g − d)/g ∈ [0,
    1]: e(1 − e)·… is monotone between the two bends of a cubic, so that roots are bracketed by its critical points and
    found by halving.
    """
    nu, square = likelihood.df, likelihood.scale**2
    g = np.where(gap == 0.0, 1.0, gap)
    # C(e) = a(1 − e)(νσ² + g²e²) − (ν+1)v e = 0, C(0) ≥ 0, C(1) ≤ 0
    c3, c2, c1, c0 = -a * g * g, a * g * g, -(a * nu * square + (nu + 1.0) * v), a * nu * square

    def cubic(e: Float) -> Float:
        return ((c3 * e + c2) * e + c1) * e + c0

    with np.errstate(all="ignore"):
        # C' = 3c₃e² + 2c₂e + c₁ has its extreme points at (1 ± √(1 + 3c₁/c₂))/3
        root = np.sqrt(np.maximum(1.0 + 3.0 * c1 / np.where(c2 > 0.0, c2, 1.0), 0.0))
    root = np.where(c2 > 0.0, root, 0.0)
    cuts = [np.zeros(g.shape), (1.0 - root) / 3.0, (1.0 + root) / 3.0, np.ones(g.shape)]
    cuts = [np.clip(c, 0.0, 1.0) for c in cuts]
    best = np.full(g.shape, -np.inf)
    place = np.zeros(g.shape)
    for left, right in pairwise(cuts):
        falling = cubic(left) > cubic(right)

        def further(e: Float, falling: Any = falling) -> Any:
            return (cubic(e) > 0.0) == falling

        low, high = halved(further, left, right, 56)
        e = 0.5 * (low + high)
        d = np.where(gap == 0.0, 0.0, gap - g * e)
        height = np.asarray(likelihood.log_density(gap, d)) - 0.5 * a * d * d / v
        place, best = np.where(height > best, d, place), np.maximum(best, height)
    return place, best


# Exact draws from q̃ ∝ N(m, v)·p(y|f), for many (y, m, v) at once: uPS, by rejection.

BLOCK = 2**15
"""Number of proposals in a block, which fits a cache."""
SPARE = 1.05
LEAST_ACCEPTANCE = 1e-9
_WASTED = 10_000
"""Rounds after which sampling stops with an error: the acceptance is then not the computed one."""


@dataclass(frozen=True, eq=False)
class ProductSample:
    """Draws, and the number of proposals that they needed.

    Attributes
    ----------
    draws : array (size, ...)
        Independent draws, exact up to rounding; (...) is the shape that y, m and v broadcast to.
    envelope : Envelope
        The proposals; ``envelope.acceptance`` is the probability, one for each (y, m, v).
    proposals, accepted : int
        Numbers of proposals made and accepted, including draws beyond ``size``.
    """

    draws: Float
    envelope: Envelope
    proposals: int
    accepted: int

    @property
    def acceptance(self) -> float:
        """Accepted over proposed."""
        return self.accepted / self.proposals if self.proposals else 1.0

    def __str__(self) -> str:
        return f"{self.draws.size} draws from {self.proposals} proposals, {self.acceptance:.3g} of them accepted."


def sample_product(
    likelihood: Likelihood,
    y: ArrayLike,
    m: ArrayLike,
    v: ArrayLike,
    size: int,
    rng: np.random.Generator | int,
    proposal: str = "best",
) -> ProductSample:
    """``size`` draws from q̃(f) ∝ N(f|m, v)·p(y|f) for each (y, m, v): uPS  (D-10, D-14; Wei et al., §3).

    Rejection from the proposals g of `gpbounds.montecarlo.cover`: a draw f of g is kept with probability
    N(f|m, v)p(y|f)/(K·g(f)) ≤ 1, so that the draws that are kept have law q̃, exactly.  Minus the mean
    score of the draws is then an unbiased gradient of −log E p (`product_gradient`), for any number of draws.

    Parameters
    ----------
    likelihood : Likelihood
    y, m, v : arrays
        Targets, means and variances > 0 of f.
    size : int
        Draws for each.
    rng : numpy.random.Generator or int
        A generator, or a seed for one.
    proposal : "best", "widened", "shifted" or "flat"
        See `cover`: where p is log-concave the best one has an acceptance of at least ¼; the widened one is the
        paper's, with the best width and constant.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, and where the acceptance is below 1e-9.

    >>> from gpbounds.likelihoods import Poisson
    >>> sample = sample_product(Poisson("exp"), [0, 3], 0.5, 1.0, 50_000, rng=0)
    >>> [round(float(x), 1) for x in sample.draws.mean(axis=0)], sample.draws.shape
    ([-0.4, 0.8], (50000, 2))
    """
    likelihood = as_likelihood(likelihood)
    count = validation.count("size", size)
    y_, m_, v_ = triples(likelihood, y, m, np.asarray(validation.positive("v", v)))
    generator = validation.generator(rng)
    envelope = cover(likelihood, y_, m_, v_, proposal)
    work = Rejection(likelihood, y_.ravel(), m_.ravel(), v_.ravel(), envelope, count)
    if isinstance(likelihood, Gaussian) and proposal == "best":
        work.conjugate(generator.standard_normal(work.draws.shape))
    else:
        work.require_acceptance(LEAST_ACCEPTANCE)
        work.fill(generator)
    return ProductSample(work.draws.reshape((count, *y_.shape)), envelope, work.proposals, work.accepted)


class Rejection:
    """The columns (y, m, v): constants of their acceptance ratios, and their draws so far."""

    def __init__(self, likelihood: Likelihood, y: Float, m: Float, v: Float, cover: Envelope, size: int) -> None:
        parts = (cover.shift, cover.n, cover.touch, cover.width)
        self.shift, n, touch, self.width = (np.asarray(part, dtype=np.float64).ravel() for part in parts)
        self.std = np.sqrt(n * v)
        self.rate = np.asarray(cover.acceptance).ravel()
        self.offset = self.shift - touch  # the proposal's mean less the point of contact
        bent = (1.0 - 1.0 / n) / v
        flat = self.width > 0.0
        self.linear = np.where(flat, touch / v, np.where(self.shift != 0.0, self.shift / v, bent * touch))
        self.square = np.where(flat, 0.5 / v, np.where(self.shift != 0.0, 0.0, 0.5 * bent))
        self.mean, self.v, self.contact = m, v, m + touch
        self.base = np.asarray(likelihood.log_density(y, self.contact)) + 1e-14
        self.sign = np.where(y > 0.0, 1.0, -1.0)
        self.y, self.likelihood = y, likelihood
        if isinstance(likelihood, Poisson) and likelihood.link == "exp":
            self.rise_rate = np.exp(self.contact)
        with validation.within_memory("size"):
            self.draws = np.zeros((size, y.size))
        self.have = np.zeros(y.size, dtype=np.int64)
        self.proposals = self.accepted = 0

    def require_acceptance(self, least: float) -> None:
        """Refuse columns of which at most the share ``least`` of the proposals would be accepted."""
        if self.rate.size and not self.rate.min() > least:
            worst = int(np.argmin(self.rate))
            raise ValueError(
                f"expected an acceptance above {least:g}, got {float(self.rate.min()):.3g} at y = {self.y[worst]:g}, "
                f"m = {self.mean[worst]:g}, v = {self.v[worst]:g}: choose another proposal"
            )

    def conjugate(self, normals: Float) -> None:
        """All draws of a Gaussian likelihood, whose product is the proposal, from standard normal numbers."""
        self.draws += self.std * normals + (self.mean + self.shift)
        self.proposals = self.accepted = self.draws.size

    def log_ratio(self, t: Float, c: Any) -> Float:
        """log(product/envelope) at contact + t, a column for each of ``c``, without the tails of flat proposals."""
        model, y = self.likelihood, self.y[c]
        bent = t * (self.linear[c] + self.square[c] * t)
        if isinstance(model, Poisson) and model.link == "exp":
            return (y - self.linear[c]) * t - self.square[c] * t * t - self.rise_rate[c] * np.expm1(t)
        if isinstance(model, Bernoulli):
            z = self.sign[c] * (self.contact[c] + t)
            return (log_cdf(z) if model.link == "probit" else -softplus(-z)) - self.base[c] - bent
        return np.asarray(model._log_density(y, self.contact[c] + t)) - self.base[c] - bent

    def fill(self, rng: np.random.Generator) -> None:
        """Propose in rounds for the columns that lack draws; columns that need about equally many share a block."""
        for columns in (np.flatnonzero(self.width == 0.0), np.flatnonzero(self.width > 0.0)):
            self._fill(columns, rng)

    def _fill(self, order: Any, rng: np.random.Generator) -> None:
        size = self.draws.shape[0]
        with np.errstate(all="ignore"):
            for _ in range(_WASTED):
                if order.size == 0:
                    return
                need = (size - self.have[order]) / self.rate[order]
                order = order[np.argsort(need, kind="stable")]
                need = np.sort(need)
                start = 0
                while start < order.size:
                    rows = int(min(SPARE * need[start] + 2.0, BLOCK))
                    stop = min(order.size, start + max(1, BLOCK // rows))
                    rows = int(min(SPARE * need[stop - 1] + 2.0, max(BLOCK // (stop - start), 2)))
                    self._round(order[start:stop], rows, rng)
                    start = stop
                order = order[self.have[order] < size]
        raise ValueError(f"expected {size} draws after {_WASTED} rounds, {order.size} (y, m, v) lack some")

    def propose(self, rows: int, c: Any, rng: np.random.Generator) -> tuple[Float, Float | float]:
        """Proposals as t = f − contact, and minus the logarithm of a flat envelope's tail there."""
        if self.width[c[0]] == 0.0:
            return self.near(rng.standard_normal((rows, c.size)), c), 0.0
        return self.flat(rng.uniform(-2.0, 2.0, (rows, c.size)), c)

    def near(self, normals: Float, c: Any) -> Float:
        """Gaussian proposals from standard normal numbers, which are overwritten."""
        normals *= self.std[c]
        normals += self.offset[c]
        return normals

    def flat(self, u: Float, c: Any) -> tuple[Float, Float]:
        """Flat proposals from uniform numbers in (−2, 2), and minus the logarithm of the envelope's tail there."""
        x = np.abs(u)
        tail = np.where(x > 1.0, -np.log1p(np.minimum(1.0 - x, 0.0)), 0.0)
        return self.width[c] * np.copysign(np.where(x > 1.0, 1.0 + tail, x), u), tail

    def _round(self, c: Any, rows: int, rng: np.random.Generator) -> None:
        t, tail = self.propose(rows, c, rng)
        self.keep(t, self.log_ratio(t, c) + tail > -rng.standard_exponential((rows, c.size)), c)

    def keep(self, t: Float, kept: Any, c: Any) -> None:
        """Add the ``kept`` proposals to the draws of their columns, until these are complete."""
        size = self.draws.shape[0]
        place = np.cumsum(kept, axis=0, dtype=np.int32)
        place += (self.have[c] - 1).astype(np.int32)
        self.proposals += t.size
        self.accepted += int(np.count_nonzero(kept))
        self.have[c] = np.minimum(place[-1] + 1, size)
        kept &= place < size
        row, column = np.nonzero(kept)
        where = c[column]
        self.draws[place[row, column], where] = t[row, column] + self.contact[where]
