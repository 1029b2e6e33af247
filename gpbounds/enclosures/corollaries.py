"""The closed formulas for M of the papers, corrected, in balls (R-cor2, R-mat-t)."""

from __future__ import annotations

from typing import Any

from gpbounds.enclosures.scalars import trace_term
from gpbounds.enclosures.spectra import Laws
from gpbounds.rigor import exact


def smooth_size(law: Laws, N: int, noise: float, delta: float, gamma: float) -> Any:
    """R-cor2: [(3+γ) log N + log(v/(2σ²δ))]/log(1/B); M is the next whole number, at least 1."""
    eta = exact(law.variance) / (2 * exact(noise) * exact(delta))
    return ((3 + exact(gamma)) * exact(N).log() + eta.log()) / -law.ratio().log()


def smooth_terms(N: int, order: float, noise: float, delta: float, gamma: float, norm_ratio: float) -> tuple[Any, Any]:
    """R-cor2: 2αR N^(−γ)/σ² and (1/δ)(αN/(2β)) log(1 + 4βδ/N^(γ+2))."""
    size, level, failing = exact(N), exact(noise), exact(delta)
    t = 4 * failing * level * size ** -(exact(gamma) + 1)
    return 2 * exact(order) * exact(norm_ratio) / level * size ** -exact(gamma), trace_term(
        t, size, order, level
    ) / failing


def tolerance(variance: float, N: int, noise: float, delta: float, gamma: float) -> Any:
    """The total variation δσ²/(vN^(γ+2)) that the corollaries allow the law of Z."""
    return exact(delta) * exact(noise) / (exact(variance) * exact(N) ** (exact(gamma) + 2))


def matern_exponent(r: int, gamma: float, form: str) -> Any:
    """R-mat-t: (γ+2)/(2r+1), printed (γ+2)/(2r), r >= 1."""
    return (exact(gamma) + 2) / (2 * r + (form == "sharpest"))


def matern_terms(
    r: int, N: int, M: int, order: float, *, constant: float, noise: float, delta: float, gamma: float,
    norm_ratio: float, form: str,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """R-mat-t: αtRN/(2δσ⁴), g_N(t)/δ and t, N·t = (2^(2r+2) or, printed, 1 + 1/M)·A·N^(−γ) + 2δσ²N^(−γ)."""
    size, level, failing = exact(N), exact(noise), exact(delta)
    factor = exact(2.0) ** (2 * r + 2) if form == "sharpest" else 1 + 1 / exact(M)
    t = (factor * exact(constant) + 2 * failing * level) * size ** -(exact(gamma) + 1)
    quadratic = exact(order) * t * exact(norm_ratio) * size / (2 * failing * level**2)
    return quadratic, trace_term(t, size, order, level) / failing, t
