"""Random Fourier features in balls: against 50 digits, and doubles with their allowance against them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.lowrank import balls as enclosures
from gpbounds.lowrank import fourier_kl, fourier_rank
from gpbounds.lowrank.balls import enclosed_density
from gpbounds.lowrank.frequencies import GAPS, leverage_density, scaled_widths
from gpbounds.reference import lowrank as reference
from gpbounds.rigor import at_bits, exact

SHARES = st.one_of(st.floats(-12.0, -1.0).map(lambda e: 10.0**e), st.floats(0.1, 1 - 1e-9))


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """10^u for u in low ... high."""
    return st.floats(low, high).map(lambda u: 10.0**u)


def number(ball: Any) -> Any:
    """The middle of a ball, as a number of mpmath."""
    return mp.mpf(ball.mid().str(60, radius=False))


@pytest.mark.claim("N-rff")
@given(m=powers(0, 15).map(round), total=powers(-3, 9), part=st.floats(1e-6, 1.0), delta=SHARES, k=st.integers(0, 191))
def test_the_bound_at_one_gap_lies_in_its_ball(
    observe: Observer, m: int, total: float, part: float, delta: float, k: int
) -> None:
    gap = float(GAPS[k])
    with mp.workdps(80):
        x = mp.mpf(m) * gap**2 / (2 * mp.mpf(total))
        truth = reference.weighted_kl(m, total, total * part, mp.mpf(delta), gap) if x < 10**6 else None
    with at_bits(256):
        ball = enclosures.weighted_kl(exact(m), exact(total), exact(total * part), exact(delta), exact(gap))
        if truth is None:
            observe.holds("N-rff", ball.is_finite())
        elif mp.isinf(truth):
            observe.holds("N-rff", not ball.is_finite())
        else:
            observe.equal("N-rff", number(ball), truth, rtol=mp.mpf(10) ** -40)


@pytest.mark.claim("N-shell", "L-21")
@given(dim=st.integers(1, 6), width=powers(-2, 3), ell=powers(-1, 1), n=powers(0, 12))
@example(1, 1.0, 1.0, 1e12)
def test_the_density_is_proved_shell_by_shell_and_its_mass_is_enclosed(
    observe: Observer, dim: int, width: float, ell: float, n: float
) -> None:
    """Heights against N-shell by quadrature at 30 digits; the mass in doubles within 1e-12 of the ball."""
    kernel = SquaredExponential(lengthscale=[ell] * dim)
    density = leverage_density(scaled_widths(kernel, [width] * dim), n)
    shells = enclosed_density(kernel, [width] * dim, density)
    with at_bits(256):
        observe.holds("N-shell", shells.proves(exact(n)))
        observe.equal("L-21", mp.mpf(density.total), number(shells.mass(exact(n))), rtol=mp.mpf("1e-12"))
        if not shells.pairs:
            return
        k = len(shells.pairs) // 2
        pair, inner, outer = shells.pairs[k], shells.radii[k], shells.radii[k + 1]
        bound = number(enclosures.shell_bound(shells.scaled(), exact(n), exact(inner), exact(outer), *map(exact, pair)))
    with mp.workdps(30):
        sides = [mp.mpf(width) / (2 * mp.pi * mp.mpf(ell))] * dim
        truth = reference.shell_bound(outer, sides, n, *pair)
        gauss = n * (2 * mp.pi) ** (-mp.mpf(dim) / 2) * mp.exp(-(mp.mpf(inner) ** 2) / 2)
        s = mp.sqrt(mp.mpf(pair[0]) + mp.mpf(1) / 2) / (2 * mp.pi)
        inside = mp.fprod(1 - reference.upper_normal(pair[1]) - reference.upper_normal(pair[1] + W / s) for W in sides)
        rest = mp.exp(-(mp.mpf(inner) ** 2) / 2) - mp.exp(-(mp.mpf(outer) ** 2) / 2)
        truth += n * (2 * mp.pi) ** (-mp.mpf(dim) / 2) * rest * (1 - inside) ** 2
        observe.equal("N-shell", bound, min(truth, gauss), rtol=mp.mpf("1e-12"))


@pytest.mark.claim("N-rff", "N-shell", "L-29")
@given(
    dim=st.integers(1, 4),
    width=powers(-2, 3),
    N=powers(0, 12).map(round),
    noise=powers(-9, 4),
    variance=powers(-4, 4),
    m=powers(0, 14).map(round),
    delta=SHARES,
    features=st.sampled_from(["leverage", "classical"]),
    share=st.one_of(st.none(), st.floats(0.01, 2.0)),
)
def test_fourier_kl_in_doubles_is_above_the_ball(
    observe: Observer,
    dim: int,
    width: float,
    N: int,
    noise: float,
    variance: float,
    m: int,
    delta: float,
    features: str,
    share: float | None,
) -> None:
    """Doubles are not below the upper end of the ball, and differ from it by the declared allowance."""
    kernel = SquaredExponential(variance, [1.0] * dim)
    options: dict[str, Any] = {"noise": noise, "width": [width] * dim, "delta": delta, "features": features}
    if share is not None:
        options["effective_dimension"] = share * N
    fast, proved = fourier_kl(kernel, N, m, **options), fourier_kl(kernel, N, m, **options, rigor="sharp")
    assert not fast.certified  # its allowance is measured
    assert "is measured, not proved; rigor='sharp' proves it" in fast.assumptions[-1]
    assert "measured" not in " ".join(proved.assumptions)
    assert proved.certified
    value, truth = float(fast), float(proved)
    observe.holds("N-rff", truth <= value)
    if value < np.inf:
        slack = mp.mpf("1e-10") * (1 + mp.mpf(delta) ** -1 * mp.mpf("1e-2"))
        observe.equal("N-rff", mp.mpf(value), mp.mpf(truth), rtol=slack)


@pytest.mark.claim("N-rff", "L-27", "L-28", "L-29")
@given(
    width=powers(-1, 2),
    N=powers(1, 9).map(round),
    noise=powers(-4, 2),
    share=powers(-6, -0.5),
    rule=st.sampled_from(["sharpest", "classical", "frobenius", "spectral"]),
    matern=st.booleans(),
)
@example(0.46984848047549854, 458325, 1.4310967367358722, 2.636558030197865e-06, "spectral", False)
def test_ranks_by_balls(
    observe: Observer, width: float, N: int, noise: float, share: float, rule: str, matern: bool
) -> None:
    """At most one frequency fewer than in doubles, 1e-11 of them where there are many; the bound meets the target."""
    kernel: Any = Matern(1.5) if matern else SquaredExponential()
    options: dict[str, Any] = {"target": share * N, "noise": noise, "width": width, "rule": rule}
    fast, proved = fourier_rank(kernel, N, **options), fourier_rank(kernel, N, **options, rigor="sharp")
    if fast.M is None or proved.M is None:
        observe.holds("N-rff", fast.M == proved.M)
        return
    assert proved.bound is not None
    observe.holds("N-rff", proved.M <= fast.M <= proved.M + 2 + 1e-10 * proved.M)
    observe.holds("N-rff", float(proved.bound) <= share * N)
    if proved.bound_before is not None:
        observe.holds("N-rff", float(proved.bound_before) > share * N)


def test_the_printed_rank_is_never_proved() -> None:
    with pytest.raises(ValueError, match="rigor: expected 'float' with rule='printed'"):
        fourier_rank(SquaredExponential(), 10**6, 1.0, noise=0.1, width=1.0, rule="printed", rigor="sharp")
