"""Exact draws from q̃ ∝ N(m, v)·p(y|f), for many (y, m, v) at once: uPS, by rejection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson
from gpbounds.likelihoods.special import log_cdf, softplus
from gpbounds.montecarlo.arguments import model, triples
from gpbounds.montecarlo.envelopes import Envelope, cover

BLOCK = 2**15
"""Number of proposals in a block, which fits a cache."""
SPARE = 1.05
LEAST_ACCEPTANCE = 1e-9
WASTED = 10_000
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
    likelihood = model(likelihood)
    count = validation.count("size", size)
    y_, m_, v_ = triples(likelihood, y, m, np.asarray(validation.positive("v", v)))
    generator = np.random.default_rng(rng)
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
            for _ in range(WASTED):
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
        raise ValueError(f"expected {size} draws after {WASTED} rounds, {order.size} (y, m, v) lack some")

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
        """Add the proposals that are ``kept`` to the draws of their columns, as far as these lack some."""
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
