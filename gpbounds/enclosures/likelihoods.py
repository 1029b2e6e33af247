"""Ranges of p(y|f) and of its first two derivatives in f, in balls (D-30 ... D-35)."""

from __future__ import annotations

from typing import Any

from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.rigor import exact

Pair = tuple[Any, Any]


def derivative_range(likelihood: Likelihood, y: float) -> tuple[Any, Pair, Pair]:
    """(sup φ, (inf φ', sup φ'), (inf φ'', sup φ'')) of φ(f) = p(y|f) over all real f; inf φ is 0.

    Raises
    ------
    ValueError
        for a likelihood whose extremes have no closed form.
    """
    if isinstance(likelihood, Bernoulli):
        return bernoulli(likelihood.link, y)
    if isinstance(likelihood, Gaussian):
        return gaussian(likelihood.noise)
    if isinstance(likelihood, StudentT):
        return student_t(likelihood.df, likelihood.scale)
    if isinstance(likelihood, Poisson) and likelihood.link == "exp":
        return poisson(int(y))
    raise ValueError(
        "rigor: expected 'float' for a likelihood whose derivatives have no extremes in closed form; 'sharp' encloses "
        f"Bernoulli, Gaussian and Student-t likelihoods and Poisson('exp'), got {likelihood!r}"
    )


def bernoulli(link: str, y: float) -> tuple[Any, Pair, Pair]:
    """D-32 for the probit link: 1/√(2π), 1/√(2πe); D-30 for the logit link: 1/4, 1/(6√3)."""
    from flint import arb

    if link == "probit":
        steep = 1 / (2 * arb.pi()).sqrt()
        bent = steep / exact(1.0).exp().sqrt()
    else:
        steep, bent = exact(0.25), 1 / (6 * exact(3.0).sqrt())
    zero = exact(0.0)
    return exact(1.0), (zero, steep) if y > 0 else (-steep, zero), (-bent, bent)


def gaussian(noise: float) -> tuple[Any, Pair, Pair]:
    """D-31: c = 1/√(2πσ²), ±c/(√e σ), −c/σ² and 2c/(σ² e^(3/2))."""
    from flint import arb

    level = exact(noise)
    c = 1 / (2 * arb.pi() * level).sqrt()
    steep = c / (exact(1.0).exp() * level).sqrt()
    return c, (-steep, steep), (-c / level, 2 * c / (level * exact(1.5).exp()))


def student_t(df: float, scale: float) -> tuple[Any, Pair, Pair]:
    """D-35: c = Γ((ν+1)/2)/(Γ(ν/2)√(πν)σ); φ' at z² = ν/(ν+2), φ'' at z = 0 and z² = 3ν/(ν+2)."""
    from flint import arb

    nu, width = exact(df), exact(scale)
    c = (((nu + 1) / 2).lgamma() - (nu / 2).lgamma()).exp() / ((arb.pi() * nu).sqrt() * width)
    slope = c / width * (nu + 1) / nu
    steep = slope * (nu / (nu + 2)).sqrt() * (-(nu + 3) / 2 * (1 / (nu + 2)).log1p()).exp()
    high = 2 * slope / width * (-(nu + 5) / 2 * (3 / (nu + 2)).log1p()).exp()
    return c, (-steep, steep), (-slope / width, high)


def poisson(y: int) -> tuple[Any, Pair, Pair]:
    """D-34, φ = g^y e^(−g)/y!, g = e^f: φ' at g = y + ½ ± √(y + ¼); φ'' at g = y + 1 + s, s³ − (3y+2)s = 2y + 1.

    The roots are s_k = 2√(y + ⅔) cos((θ − 2πk)/3), and φ'' = (s² + s − y)φ there; the limits at ±∞ are 0.
    """
    from flint import arb

    count, zero = exact(y), exact(0.0)

    def density(g: Any) -> Any:
        if y == 0:
            return (-g).exp()
        return (count * g.log() - g - (count + 1).lgamma()).exp()

    root = (count + exact(0.25)).sqrt()
    low, high = (-(exact(0.5) + sign * root) * density(count + exact(0.5) + sign * root) for sign in (1, -1))
    p = 3 * count + 2
    angle = (exact(1.5) * (2 * count + 1) / p * (3 / p).sqrt()).acos()
    bends = []
    for k in range(3):
        s = 2 * (p / 3).sqrt() * ((angle - 2 * arb.pi() * k) / 3).cos()
        bends.append((s * s + s - count) * density(count + 1 + s))
    least, most = zero, zero
    for bend in bends:
        least, most = least.min(bend), most.max(bend)
    return density(count) if y else exact(1.0), (low.min(zero), high.max(zero)), (least, most)
