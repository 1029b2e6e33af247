"""Sample sizes of biased Monte Carlo in balls, and the ranges of p(y|f) and of its derivatives that they need."""

from __future__ import annotations

from functools import reduce
from typing import Any

from gpbounds.errors import shown
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.rigor import exact

# Ranges of p(y|f) and of its first two derivatives in f, in balls (D-30 ... D-35).

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
        f"Bernoulli, Gaussian and Student-t likelihoods and Poisson('exp'), got {shown(likelihood)}"
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


# Sample sizes of biased Monte Carlo in balls (D-41, D-48, D-50, N-cher).


def lemma6(low: Any, high: Any, mean: Any, relative_error: Any, delta: Any) -> Any:
    """(b−a)²/(2r²μ²)·ln(2/δ) (D-41)."""
    return ((high - low) / (relative_error * mean)) ** 2 / 2 * (2 / delta).log()


def failure_share(iteration: Any, delta: Any) -> Any:
    """6δ/(π²t²) (D-48)."""
    from flint import arb

    return 6 * delta / (arb.pi() * iteration) ** 2


def factors(likelihood: Likelihood, y: float, zeta: Any, a: Any, *, chernoff: bool) -> tuple[dict[str, Any], Any]:
    """({B²/ζ² or with ``chernoff`` 2a²/k, (B'−b')², (B''−b'')²}, B*) (D-50, N-cher)."""
    B, first, second = derivative_range(likelihood, y)
    parts = {"φ": (B / zeta) ** 2, "φ'": (first[1] - first[0]) ** 2, "φ''": (second[1] - second[0]) ** 2}
    if chernoff:
        parts["φ"] = parts["φ"].min(2 * a * a / relative_divergence(zeta / B, a))
    return parts, reduce(lambda u, v: u.max(v), map(abs, (B, *first, *second)))


def threshold(parts: dict[str, Any], n: Any, share: Any, a: Any) -> Any:
    """ln(6n/δ_t)/(2a²)·max of the factors (D-50)."""
    return (6 * n / share).log() / (2 * a * a) * reduce(lambda u, v: u.max(v), parts.values())


def relative_divergence(p: Any, a: Any) -> Any:
    """min kl((1±a)p‖p); ∞ where (1 + a)p > 1 for that sign, and for p ≥ 1."""
    from flint import arb

    if p >= 1:
        return arb("inf")
    smaller = divergence(p, -a)
    whole = (1 + a) * p
    return smaller if whole > 1 else smaller.min(divergence(p, a))


def divergence(p: Any, a: Any) -> Any:
    """kl((1+a)p‖p) = p[(1+a) log(1+a) − a] + (1−p)[(1−x) log(1−x) + x], x = pa/(1−p)."""
    x = p * a / (1 - p)
    return p * ((1 + a) * a.log1p() - a) + (1 - p) * ((1 - x) * (-x).log1p() + x)
