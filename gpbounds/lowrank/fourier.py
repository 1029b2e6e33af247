"""Random Fourier features: how far the low-rank GP is from the exact one, and how many features suffice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from gpbounds.bound import UP, Bound, Cost, Plan, upper_bound
from gpbounds.kernels import Kernel, Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank import frequencies
from gpbounds.lowrank.balls import EnclosedFrequencies, enclosed_density
from gpbounds.lowrank.features.sines import FARTHEST
from gpbounds.lowrank.frequencies import LARGEST, leverage_density, scaled_widths
from gpbounds.validation import choice, count, open_unit, positive, rigor_of, scalar, whole

RULES = ("sharpest", "frobenius", "spectral", "classical", "printed")
_FALSE_AS_PRINTED = (
    "Theorem 2 as printed is false for small R, needs Δ <= 1/2 and ||K|| >= noise, and hides a constant that grows "
    "exponentially with D; this function sets it to 1 (L-20, L-26)."
)
MEASURED = (
    "The allowance for rounding, 1e-11 of the value and 5e-13 of each failure probability and number of frequencies, "
    "is measured, not proved; rigor='sharp' proves it."
)


@dataclass(frozen=True)
class _Setting:
    """The arguments of a bound except m: s̃, an upper bound on s_λ, the kind of frequencies, the hypotheses."""

    total: float
    dimension: float
    weighted: bool
    assumptions: tuple[str, ...]
    enclosed: EnclosedFrequencies | None = None

    @classmethod
    def checked(
        cls,
        kernel: Kernel,
        N: int,
        noise: float,
        width: ArrayLike | None,
        classical: bool,
        effective_dimension: float | None,
        rigor: str,
    ) -> _Setting:
        """Check the arguments that `fourier_kl` and `fourier_rank` share."""
        if has_formula(kernel, Periodic):
            raise ValueError(
                "kernel: expected one with a density of frequencies, got Periodic, whose frequencies are whole "
                "multiples of 1/period: random ones repeat, and the multiples up to a limit serve better"
            )
        if not has_formula(kernel, SquaredExponential, Matern, RationalQuadratic):
            raise ValueError(
                f"kernel: expected SquaredExponential, Matern or RationalQuadratic, got {type(kernel).__name__}"
            )
        assert isinstance(kernel, SquaredExponential | Matern | RationalQuadratic)
        level = scalar(positive, "noise", noise) / kernel.variance
        ratio = N / level if level > 0.0 else math.inf
        if not ratio <= LARGEST:
            raise ValueError(f"noise: expected N·variance/noise <= {LARGEST:g}, got {ratio:g}")
        weighted = isinstance(kernel, SquaredExponential) and not classical
        if weighted:
            assert isinstance(kernel, SquaredExponential)
            if width is None:
                raise ValueError(
                    "width: expected the range of the inputs (per dimension) for frequencies drawn by leverage; "
                    "rule='classical' needs none"
                )
            width = positive("width", width)
            if (width > FARTHEST).any():
                raise ValueError(f"width: expected at most {FARTHEST:g}, got {width.max():g}")
            density = leverage_density(scaled_widths(kernel, width), ratio)
            shells = partial(enclosed_density, kernel, width, density)
            total = density.total
            sentences: tuple[str, ...] = (
                f"The inputs are any N points whose range is at most width = {width.tolist()} in every dimension, "
                "chosen before the frequencies.",
                "Frequencies are drawn by gpbounds.lowrank.leverage_density, with its weights (L-24).",
            )
        else:
            total = ratio
            sentences = (
                "The inputs are any N points, chosen before the frequencies.",
                "Frequencies are drawn from the kernel's spectral density, with equal weights (L-29).",
            )
        dimension = min(total, N / (1.0 + level))
        if effective_dimension is not None:
            dimension = min(dimension, scalar(positive, "effective_dimension", effective_dimension))
            sentences += (f"tr K(K + noise I)^-1 is at most {effective_dimension:g}, as the caller states.",)
        enclosed = None
        if rigor_of(rigor) == "sharp":
            numbers = (N, kernel.variance, float(noise), effective_dimension)
            enclosed = EnclosedFrequencies.checked(*numbers, shells() if weighted else None, total, dimension)
        return cls(total, dimension, weighted, sentences, enclosed)

    def record(self, value: Any, m: Any, delta: float, claim: str) -> Bound:
        """The :class:`Bound` ``value`` at m frequencies."""
        total, dimension = self.total, self.dimension
        if self.enclosed is not None:
            total, dimension = self.enclosed.rounded_mass, self.enclosed.rounded_dimension
        return upper_bound(
            value,
            delta,
            claim,
            {"frequencies": m, "density_mass": total, "effective_dimension": dimension},
            self.assumptions if self.enclosed is not None else (*self.assumptions, MEASURED),
            certified=self.enclosed is not None,
            quantity="KL(exact || random features)",
        )

    def number(self, rule: str, delta: float, level: float) -> float:
        """The number of frequencies by a rule; ``level`` is the target in nats, per datum for "spectral"."""
        if self.enclosed is not None:
            return self.enclosed.number(rule, delta, level)
        numbers = (self.total, self.dimension, delta)
        if rule == "sharpest":
            return frequencies.sharpest(*numbers, level / UP)
        return frequencies.frobenius(*numbers, level) if rule == "frobenius" else frequencies.spectral(*numbers, level)

    def bound(self, m: Any, delta: float) -> Bound:
        """N-rff at m frequencies."""
        if self.enclosed is not None:
            value = self.enclosed.bound(m, delta)
        else:
            value = frequencies.weighted_kl(m, self.total, self.dimension, delta) * UP
        return self.record(value, m, delta, "N-rff, N-shell" if self.weighted else "N-rff, L-29")


def fourier_kl(
    kernel: Kernel,
    N: int,
    m: ArrayLike,
    *,
    noise: float,
    width: ArrayLike | None = None,
    delta: float = 0.05,
    features: str = "leverage",
    effective_dimension: float | None = None,
    rigor: str = "auto",
) -> Bound:
    """Upper bound on KL(exact‖random Fourier features) with m random frequencies, 2m real features, for any N inputs.

    With probability at least 1 − δ over the frequencies, for every Δ in (0, 1) with δ₂ = δ − s_λ·O(e^{−x}) > 0,
    x = mΔ²/(2s̃) (N-rff; the constants stand in ``gpbounds.lowrank.frequencies.weighted_kl``):

        KL ≤ (κ(Δ)/Δ²)·(s̃s_λ/m)·min{1/δ₂, (1 + √(2 log(1/δ₂)/s_λ) + …)²}.

    s̃ is the mass of the density of the frequencies: ∫τ̃ of N-shell for squared exponential kernels and
    ``features="leverage"``, n = N·variance/noise for the kernel's spectral density (L-29).  The function replaces
    s_λ = tr K(K + σ²I)⁻¹ by min{s̃, N/(1 + N/n)}, or by ``effective_dimension``.  Daskalakis et al., Theorem 2, with its
    constants.  The bound is infinite if m is too small; at δ = 0.05 simulated divergences are 50 to 300 times smaller.

    Parameters
    ----------
    kernel : SquaredExponential, Matern or RationalQuadratic
    N : whole number >= 1
    m : whole number(s) >= 1
        Random frequencies; each gives a cosine and a sine, so the rank is at most 2m.
    noise : positive number
        σ², in squared units of y.
    width : positive number(s), per dimension or one for all
        Upper bound on the range of the inputs, in the units of x; a number with an isotropic kernel means D = 1.
    delta : number in (0, 1)
        Probability that the draw of the frequencies violates the bound.
    features : "leverage" or "classical"
    effective_dimension : positive number, optional
        An upper bound on s_λ.
    rigor : "auto", "float" or "sharp"
        "sharp": the value is the double above an Arb ball of the bound, by construction; balls also prove that the
        density of the frequencies is at least the leverage, shell by shell, and contain its mass.  "float" enlarges the
        value by 1e-11 and each failure probability by 5e-13, which exceed the rounding errors of their computation as
        measured: such a bound is not certified.

    Raises
    ------
    ValueError
        for an argument out of range, a kernel of another kind, a missing width.

    >>> kernel = SquaredExponential(lengthscale=0.2)
    >>> fourier_kl(kernel, 1000, [50, 200, 1000], noise=0.1, width=1.0).value.round(3).tolist()
    [inf, inf, 0.749]
    """
    size, failing = count("N", N), scalar(open_unit, "delta", delta)
    number = whole("m", m)
    classical = choice("features", features, ("leverage", "classical")) == "classical"
    return _Setting.checked(kernel, size, noise, width, classical, effective_dimension, rigor).bound(number, failing)


def fourier_rank(
    kernel: Kernel,
    N: int,
    target: float,
    *,
    noise: float,
    width: ArrayLike | None = None,
    delta: float = 0.05,
    rule: str = "sharpest",
    effective_dimension: float | None = None,
    rigor: str = "auto",
) -> Plan:
    """The number of random Fourier features that suffices for KL(exact‖features) ≤ target, for any N inputs in a box.

    ============== ============================================================================== =================
    rule           number m of frequencies; the rank is 2m; ε = target/N
    ============== ============================================================================== =================
    "sharpest"     least m at which the bound of :func:`fourier_kl` is ≤ εN                        N-rff
    "classical"    the same with the kernel's spectral density: s̃ = n = N·variance/noise          N-rff, L-29
    "frobenius"    max{(32/3)s̃ log((32s_λ + 16)/δ), 1.2275 s̃s_λ/(δεN)}                           L-28
    "spectral"     (8/3)Δ⁻²s̃ log((16s_λ + 8)/δ), κ(Δ) = ε, Δ ≤ ½                                 L-27
    "printed"      rank R^D ε⁻² (log n)^{2D} log(N/δ), Ω(·) read as 1: Daskalakis et al., Thm 2    false, L-26
    ============== ============================================================================== =================

    None of the first four needs ‖K‖ ≥ σ², which Theorem 2 needs but does not state.  As functions of ε, "sharpest",
    "classical" and "frobenius" behave like 1/(εN), "spectral" like 1/ε, "printed" like 1/ε².  For Matérn and
    rational quadratic kernels "sharpest" equals "classical", and s̃ = n in "frobenius" and "spectral".

    Parameters
    ----------
    target : positive number
        In nats for all N data, εN in the paper; below N/2 for "printed".
    rule : one of the five
    kernel, N, noise, width, delta, effective_dimension, rigor : as in :func:`fourier_kl`; "sharp" is not for "printed"

    Returns
    -------
    Plan
        ``.M`` = 2m real features, or None if 2m ≥ N, because then the exact GP is cheaper; ``.notes`` state m in both
        cases.  ``.bound``, and for "sharpest" and "classical" ``.bound_before`` (m − 1 frequencies).

    Raises
    ------
    ValueError
        as :func:`fourier_kl`; for a target that is not positive.

    >>> plan = fourier_rank(SquaredExponential(), 10**9, target=1e3, noise=1.0, width=10.0)
    >>> plan.M, plan.bound.confidence
    (1854, 0.95)
    """
    size, failing = count("N", N), scalar(open_unit, "delta", delta)
    goal = scalar(positive, "target", target)
    per_datum = goal / size
    if per_datum < 1e-100:
        raise ValueError(f"target: expected at least 1e-100 nats a datum, got {per_datum:g}")
    choice("rule", rule, RULES)
    if rule == "printed":
        if rigor_of(rigor) == "sharp":
            raise ValueError("rigor: expected 'float' with rule='printed', which is false as printed and not certified")
        return _printed(kernel, size, noise, goal, width, failing)
    setting = _Setting.checked(kernel, size, noise, width, rule == "classical", effective_dimension, rigor)
    before: Bound | None = None
    if rule == "frobenius":
        m = setting.number("frobenius", failing, goal)
        bound = setting.record(goal, m, failing, "L-28, N-shell" if setting.weighted else "L-29")
    elif rule == "spectral":
        m = setting.number("spectral", failing, per_datum)
        bound = setting.record(goal, m, failing, "L-27, N-shell" if setting.weighted else "L-29")
    else:
        m = setting.number("sharpest", failing, goal)
        bound = setting.bound(m, failing)
        before = setting.bound(m - 1.0, failing) if m > 1.0 else None
    suffices = 2.0 * m < size
    return Plan(
        method="fourier",
        N=size,
        target=goal,
        M=int(2 * m) if suffices else None,
        bound=bound if suffices else None,
        bound_before=before if suffices else None,
        meaning=(f"The low-rank GP is within {per_datum:g} nats a datum of the exact one.",) if suffices else (),
        cost=Cost.of(size, int(2 * m)) if suffices else None,
        notes=(
            f"{m:.6g} random frequencies, a cosine and a sine for each; density mass {setting.total:.6g}, effective "
            f"dimension at most {setting.dimension:.6g}.",
        ),
    )


def _printed(kernel: Kernel, N: int, noise: float, target: float, width: ArrayLike | None, delta: float) -> Plan:
    if not has_formula(kernel, SquaredExponential):
        raise ValueError(f"kernel: expected SquaredExponential for rule='printed', got {type(kernel).__name__}")
    assert isinstance(kernel, SquaredExponential)
    if width is None:
        raise ValueError("width: expected the range of the inputs for rule='printed'")
    widths, eps = scaled_widths(kernel, width), target / N
    log_n = math.log(N * kernel.variance / scalar(positive, "noise", noise))
    if eps >= 0.5 or widths.size > 5.0 * log_n + 1.0 or log_n <= 0.0:
        raise ValueError(
            f"target, noise: Theorem 2 expects target/N in (0, 0.5) and D <= 5 log(N/noise) + 1, got target/N = "
            f"{eps:g}, D = {widths.size}, log(N/noise) = {log_n:g}"
        )
    D = widths.size
    log_rank = D * math.log(widths.max()) - 2.0 * math.log(eps) + 2.0 * D * math.log(log_n)
    rank = max(math.ceil(min(math.exp(min(log_rank, 690.0)) * (math.log(N) - math.log(delta)), 1e300)), 1)
    suffices = rank < N
    quantity = "KL(exact || random features)"
    bound = upper_bound(
        target, delta, "Thm 2 as printed (L-26)", {}, (_FALSE_AS_PRINTED,), certified=False, quantity=quantity
    )
    return Plan(
        method="fourier",
        N=N,
        target=target,
        M=rank if suffices else None,
        bound=bound if suffices else None,
        bound_before=None,
        cost=Cost.of(N, rank) if suffices else None,
        notes=(_FALSE_AS_PRINTED, f"The printed rank is {rank:.6g}."),
    )
