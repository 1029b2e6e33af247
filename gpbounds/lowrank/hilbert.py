"""Hilbert-space GPs: how many Dirichlet eigenfunctions suffice, for any rows in a box."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import UP, Bound, upper_bound
from gpbounds.errors import NotConverged
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank import dirichlet
from gpbounds.lowrank.balls import EnclosedSines
from gpbounds.lowrank.dirichlet import Sines
from gpbounds.lowrank.features.sines import sides
from gpbounds.numerics.search import bisected, least
from gpbounds.rigor import exact, rounded
from gpbounds.validation import count, positive, rigor_of, scalar

SMOOTHNESS = (0.5, 1.5, 2.5)
MOST_FUNCTIONS = 10**7
"""Functions per dimension that `hilbert_rank` tries."""
MEASURED = (
    "The allowance for rounding, 1e-11 of the value and what the matrices at the nodes add, is measured, not proved; "
    "rigor='sharp' proves it."
)
QUANTITY = "KL(exact || Hilbert space) and KL(Hilbert space || exact)"


@dataclass(frozen=True)
class _Setting:
    """The arguments of a bound: in units of lengthscales and variance in ``box``, and as they were given."""

    box: Sines
    widths: Float
    lengthscales: Float
    variance: float
    noise: float
    sharp: bool

    def enclosed(self, box: Sines) -> EnclosedSines:
        """The same as balls, at m and c of ``box``."""
        return EnclosedSines.of(box, self.widths, self.lengthscales, self.variance, self.noise)


def _checked(
    kernel: Kernel, N: int, m: ArrayLike, c: ArrayLike, half_width: ArrayLike, noise: float, rigor: str
) -> _Setting:
    """The checked arguments."""
    known: Any = kernel
    nu = math.inf if has_formula(kernel, SquaredExponential) else known.nu if has_formula(kernel, Matern) else 0.0
    if nu not in (*SMOOTHNESS, math.inf):
        raise ValueError(
            "kernel: expected SquaredExponential, or Matern with nu 0.5, 1.5 or 2.5, whose images and spectral density "
            f"are bounded, got {kernel!r}"
        )
    numbers, factors, widths = sides(m, c, half_width)
    lengthscales = known.lengthscales(widths.size)
    reach = widths / lengthscales
    if not ((reach >= 1e-2) & (reach <= 1e6)).all():
        raise ValueError(f"half_width: expected 0.01 to 1e6 lengthscales in each dimension, got {reach.tolist()}")
    level = scalar(positive, "noise", noise)
    sharp = rigor_of(rigor) == "sharp"
    box = Sines(nu, count("N", N), level / known.variance, reach, factors, numbers)
    return _Setting(box, widths, lengthscales, known.variance, level, sharp)


def _record(setting: _Setting, box: Sines) -> Bound:
    """The bound at m and c of ``box``."""
    value, parts = dirichlet.bound(box)
    value, sharp = value * UP, setting.sharp
    if sharp:
        value = rounded(lambda: setting.enclosed(box).bound(), upwards=True)
    named = {"m": box.m, "c": box.c, **{name.replace(" ", "_"): part for name, part in parts.items()}}
    return upper_bound(
        value,
        0.0,
        "N-hilbert-kl",
        named,
        (
            "The inputs are any N points of the box, chosen at will.",
            *(() if sharp else (MEASURED,)),
        ),
        certified=sharp,
        quantity=QUANTITY,
    )


def hilbert_kl(
    kernel: Kernel,
    N: int,
    m: ArrayLike,
    c: ArrayLike,
    *,
    half_width: ArrayLike,
    noise: float,
    rigor: str = "auto",
) -> Bound:
    """Upper bound on the KL divergence of a Hilbert-space GP from the exact GP, for any N inputs in a box.

    The box is Π[−S_d, S_d].  The approximation of Solin & Särkkä (HSGP in PyMC, Stan, NumPyro, brms) has the kernel

        k̃(x, x') = Σ_{j ≤ m} s(ω_j) φ_j(x) φ_j(x'),  φ_j(x) = Π_d sin(ω_{j,d}(x_d + L_d))/√L_d,  ω_{j,d} = j_dπ/(2L_d),

    s the spectral density, L_d = c_d S_d.  The value bounds KL(N(0, K + σ²I)‖N(0, K̃ + σ²I)), as :func:`mercer_kl` and
    :func:`fourier_kl` do, and the reverse KL(N(0, K̃ + σ²I)‖N(0, K + σ²I)), too.  It is the least of (N-hilbert-kl)

        κ + ½[x − log(1 + x)] + ½ηx,   x = N·sup(k_∞ − k̃)(x, x)/σ²,   η − log(1 + η) = 2κ,

    where κ bounds both divergences between k and k_∞ = lim k̃ (m → ∞): by the sup-norm of the images (N-hilbert-images),
    for Matérn kernels on a line by their derivatives at ±S (N-hilbert-ends), for squared exponential kernels by their
    values at Lobatto's nodes with noise σ²/N (N-hilbert-nodes); and, for the last kernel, the divergence of k and k̃
    at these nodes.  ½[x − log(1 + x)] is that of L-09.  For Matérn kernels in D > 1 only the sup-norm serves, and the
    spectral tail falls like m^(−2ν): far more functions are needed there than another low-rank method would take.

    Parameters
    ----------
    kernel : SquaredExponential, or Matern with nu 0.5, 1.5 or 2.5
    N : whole number >= 1
    m : whole number(s) >= 1, for all dimensions or one for each
        Functions in each dimension; the rank is their product.
    c : number(s) > 1
        Boundary factors.
    half_width : positive number(s), one per dimension
        S, in the units of x, which is centred; a number means D = 1.
    noise : positive number
        σ², in squared units of y.
    rigor : "auto", "float" or "sharp"
        "sharp": the value is the double above an Arb ball; for squared exponential kernels in D > 1 it takes the
        sup-norm of the images alone, which asks for larger c and m.  The others are not certified.

    Raises
    ------
    ValueError
        for an argument out of range or another kernel.

    >>> kernel = SquaredExponential(lengthscale=0.3)
    >>> [round(float(hilbert_kl(kernel, 1500, m, 1.5, half_width=1.0, noise=0.1)), 3) for m in (7, 14)]
    [353.81, 0.046]
    """
    setting = _checked(kernel, N, m, c, half_width, noise, rigor)
    return _record(setting, setting.box)


def hilbert_kernel_error(
    kernel: Kernel, m: ArrayLike, c: ArrayLike, *, half_width: ArrayLike, rigor: str = "auto"
) -> Bound:
    """Upper bound on |k̃(x, x') − k(x, x')| for all x, x' in the box, k̃ the kernel of a Hilbert-space GP.

    ε + t: ε bounds the images, t ≥ sup(k_∞ − k̃)(x, x) the functions left out (N-hilbert-images, N-hilbert-tail).  Use
    it where the likelihood is not Gaussian; parameters and errors are those of :func:`hilbert_kl`.

    >>> round(float(hilbert_kernel_error(SquaredExponential(), 8, 2.5, half_width=1.0)), 4)
    0.0111
    """
    setting = _checked(kernel, 1, m, c, half_width, 1.0, rigor)
    box, variance, sharp = setting.box, setting.variance, setting.sharp
    parts = {"images": variance * dirichlet.images(box), "omitted": variance * dirichlet.omitted(box)}
    value = UP * sum(parts.values())
    if sharp:
        balls = setting.enclosed(box)
        value = rounded(lambda: exact(variance) * (balls.images() + balls.omitted()), upwards=True)
    return upper_bound(
        value,
        0.0,
        "N-hilbert-images, N-hilbert-tail",
        parts,
        ("The inputs lie in the box.", *(() if sharp else (MEASURED,))),
        certified=sharp,
        quantity="sup |k - k_Hilbert|",
    )


@dataclass(frozen=True)
class HilbertRank:
    """Numbers of functions and boundary factors that suffice.

    Attributes
    ----------
    m : int or tuple of int
        Functions; a tuple, one per dimension, in D > 1.
    c : float or tuple of float
        Boundary factors, L = c·half_width.
    bound : Bound
        The bound of :func:`hilbert_kl` at m and c.
    target : float
    """

    m: int | tuple[int, ...]
    c: float | tuple[float, ...]
    bound: Bound
    target: float

    @property
    def rank(self) -> int:
        """The number of functions, Π m_d."""
        return math.prod(np.atleast_1d(self.m).tolist())

    def __str__(self) -> str:
        return f"m = {self.m}, c = {self.c}: {self.rank} functions suffice for {self.target:g} nats.\n{self.bound}"


def hilbert_rank(
    kernel: Kernel, N: int, *, half_width: ArrayLike, noise: float, target: float, rigor: str = "auto"
) -> HilbertRank:
    """Numbers m of functions and boundary factors c with which the bound of :func:`hilbert_kl` is at most ``target``.

    In one dimension it seeks the least m over all c; in several dimensions it shares the target between them, then
    lowers one m after the other.  Hypotheses, parameters and errors are those of :func:`hilbert_kl`.

    Parameters
    ----------
    target : positive number
        In nats for all N data, both for KL(exact‖approximate) and for the reverse.
    kernel, N, half_width, noise, rigor : as in :func:`hilbert_kl`

    Returns
    -------
    HilbertRank

    Raises
    ------
    ValueError
        as :func:`hilbert_kl`.
    NotConverged
        if more than 10⁷ functions would be needed in one dimension.

    >>> plan = hilbert_rank(SquaredExponential(lengthscale=0.3), 1500, half_width=1.0, noise=0.1, target=0.1)
    >>> plan.m, bool(plan.bound <= 0.1)
    (14, True)
    """
    setting = _checked(kernel, N, 1, 2.0, half_width, noise, rigor)
    goal = scalar(positive, "target", target)
    aim = goal / UP
    for _ in range(4):
        planned = _planned(setting.box, aim)
        bound = _record(setting, planned)
        if float(bound) <= goal:
            break
        aim *= 0.999 * goal / float(bound)
    else:
        raise NotConverged(f"expected m and c with a bound at most {goal:g}, got {float(bound):g} at m = {planned.m}")
    m, c = planned.m.astype(int).tolist(), planned.c.tolist()
    if planned.dim == 1:
        return HilbertRank(m[0], c[0], bound, goal)
    return HilbertRank(tuple(m), tuple(c), bound, goal)


# The search for m and c, in doubles.


def _planned(box: Sines, target: float) -> Sines:
    if box.dim == 1:
        return _on_a_line(box, target)
    return _shared(box, target) if box.product else _radial(box, target)


def _factors(box: Sines, steps: int) -> Any:
    """Boundary factors with 2(L − S) from .1 to 14 lengthscales and c ≥ 1.01, geometrically spaced."""
    reach = float(box.reach[0])
    return 1.0 + np.geomspace(max(0.05 / reach, 0.01), max(7.0 / reach, 0.02) + 1.0, steps)


def _with(box: Sines, m: float, c: float) -> Sines:
    return replace(box, m=np.array([float(m)]), c=np.array([float(c)]))


def _least_m(box: Sines, c: float, target: float, most: int) -> int | None:
    """The least m ≤ most whose joined bound is at most the target at this c."""
    at = _with(box, most, c)
    divergence = dirichlet.by_images(at)
    if not divergence < target:
        return None
    value = dirichlet.joining(divergence)
    if not value(at) <= target:
        return None
    return bisected(lambda m: value(_with(box, m, c)) <= target, 0, most)


def _on_a_line(box: Sines, target: float) -> Sines:
    """The least m, and among equal m the c of the smallest bound met."""
    best: tuple[int, float] | None = None
    grid = _factors(box, 14)
    for rounds in range(3):
        for c in grid.tolist() if best is None or best[0] > 1 else []:
            m = _least_m(box, c, target, MOST_FUNCTIONS if best is None else best[0] - 1)
            if m is not None:
                best = (m, c)
        if best is None:
            raise NotConverged(
                f"target: expected one that {MOST_FUNCTIONS:g} functions reach, got {target:g}: use a smaller box"
            )
        near = (best[1] - 1.0) * (1.5 if rounds == 0 else 1.12) ** np.linspace(-0.9, 0.9, 6)
        grid = 1.0 + near
    assert best is not None
    m, c = best
    if not (box.at_nodes and box.nu == math.inf and dirichlet.nodes(_with(box, m, c)) is not None):
        return _with(box, m, c)
    for fewer in range(m - 1, 0, -1):
        values = [(dirichlet.at_nodes(_with(box, fewer, trial), kept=True), trial) for trial in _around(c)]
        value, trial = min(values)
        if not value <= target:
            break
        m, c = fewer, trial
    return _with(box, m, c)


def _around(c: float) -> list[float]:
    return (1.0 + (c - 1.0) * np.geomspace(0.6, 1.6, 9)).tolist()


def _shared(box: Sines, target: float) -> Sines:
    """Products of kernels: each dimension by its own line at the same share of the target, then one by one fewer."""
    low, high = math.log(target / (50.0 * box.dim)), math.log(target)
    best: Sines | None = None
    share = math.log(target / box.dim)
    for _ in range(4):
        trial = _lines(box, math.exp(share))
        if dirichlet.bound(trial)[0] <= target:
            low, best = share, trial
        else:
            high = share
        share = 0.5 * (low + high)
    share = low
    while best is None:
        trial = _lines(box, math.exp(share))
        best = trial if dirichlet.bound(trial)[0] <= target else None
        share -= 3.0
        if share < low - 60.0:
            raise NotConverged(f"target: expected one that the bound reaches, got {target:g}: use a smaller box")
    return _lowered(best, target)


def _lines(box: Sines, share: float) -> Sines:
    known: dict[float, Sines] = {}
    for d, reach in enumerate(box.reach.tolist()):
        if reach not in known:
            known[reach] = _on_a_line(box.line(d), share)
    lines = [known[reach] for reach in box.reach.tolist()]
    return replace(box, m=np.concatenate([a.m for a in lines]), c=np.concatenate([a.c for a in lines]))


def _lowered(box: Sines, target: float) -> Sines:
    """Fewer functions in one dimension after the other, with the zeros at the same place or nearer or farther."""
    open_dims = set(range(box.dim))
    while open_dims:
        d = max(open_dims, key=lambda index: box.m[index])
        fewer = box.m.copy()
        fewer[d] -= 1.0
        trials = (replace(box, m=fewer, c=1.0 + (box.c - 1.0) * scale) for scale in (1.0, 0.9, 0.8, 1.12))
        better = next((t for t in trials if fewer[d] >= 1.0 and dirichlet.bound(t)[0] <= target), None)
        if better is None:
            open_dims.discard(d)
        else:
            box = better
    return box


def _radial(box: Sines, target: float) -> Sines:
    """Matérn in D > 1: the same distance from the box to the zeros in lengthscales, the same tail in each dimension."""
    best: tuple[float, Sines] | None = None
    for gap in np.geomspace(0.5, 40.0, 24).tolist():
        at = replace(box, c=1.0 + gap / box.reach, m=np.ones(box.dim))
        divergence = dirichlet.by_images(at)
        if not divergence < target:
            continue

        def at_height(height: int, at: Sines = at) -> Sines:
            frequency = 2.0 * at.c * at.reach / math.pi
            return replace(at, m=np.ceil(height / 64.0 * frequency))

        value = dirichlet.joining(divergence)

        def enough(height: int, value: Any = value, at_height: Any = at_height) -> bool:
            return bool(value(at_height(height)) <= target)

        height = least(enough, 1, 2**40)
        if height is None:
            continue
        trial = at_height(height)
        size = float(np.log(trial.m).sum())
        if best is None or size < best[0]:
            best = (size, trial)
    if best is None:
        raise NotConverged(f"target: expected one that the sup-norm of the images reaches, got {target:g}")
    return best[1]
