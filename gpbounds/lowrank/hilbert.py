"""Hilbert-space GPs: how many Dirichlet eigenfunctions suffice, for any rows in a box."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import UP, Bound, upper_bound
from gpbounds.errors import NotConverged, shown
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank import dirichlet
from gpbounds.lowrank.balls import EnclosedSines
from gpbounds.lowrank.dirichlet import Sines
from gpbounds.lowrank.features.sines import sides
from gpbounds.numerics.search import bisected
from gpbounds.rigor import exact, rounded
from gpbounds.validation import count, positive, rigor_of, scalar, within_memory

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
            f"are bounded, got {shown(kernel)}"
        )
    numbers, factors, widths = sides(m, c, half_width)
    lengthscales = known.lengthscales(widths.size)
    reach = widths / lengthscales
    if not ((reach >= 1e-2) & (reach <= 1e6)).all():
        raise ValueError(f"half_width: expected 0.01 to 1e6 lengthscales in each dimension, got {reach.tolist()}")
    level = scalar(positive, "noise", noise)
    if not 1e-300 < level / known.variance < 1e300:
        raise ValueError(f"noise: expected 1e-300 to 1e300 times the variance {known.variance:g}, got {level!r}")
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
    for Matérn kernels on a line by their derivatives at ±S (N-hilbert-ends), in two and three dimensions by what
    half-spaces predict (N-hilbert-predict), for squared exponential kernels by their values at Lobatto's nodes with
    noise σ²/N (N-hilbert-nodes); and, for the last kernel, the divergence of k and k̃ at these nodes.  At the ends η is
    the least with C ⪯ (1 + η)C_∞.  ½[x − log(1 + x)] is that of L-09.  For Matérn kernels the spectral tail falls like
    m^(−2ν), and in D > 1 c is two times larger than on a line: another low-rank method takes fewer functions there.

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
        "sharp": the value is the double above an Arb ball; seconds for squared exponential kernels in D > 1.  The
        others are not certified.

    Raises
    ------
    ValueError
        for an argument out of range or another kernel.

    >>> kernel = SquaredExponential(lengthscale=0.3)
    >>> [round(float(hilbert_kl(kernel, 1500, m, 1.5, half_width=1.0, noise=0.1)), 3) for m in (7, 14)]
    [353.81, 0.046]
    """
    setting = _checked(kernel, N, m, c, half_width, noise, rigor)
    with within_memory("m"):
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

    It seeks the least m over all c; in several dimensions the functions end at one frequency and vanish at one distance
    from the box, in units of the lengthscales.  Hypotheses, parameters and errors are those of :func:`hilbert_kl`.

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


# The search for m and c, in doubles: the functions of all dimensions end at one frequency, in units of the lengthscale,
# and their zeros lie at one distance from the box, the gap L − S.

GAPS = np.geomspace(0.05, 40.0, 20)
"""Gaps in lengthscales from which the search starts."""
SCALES = (1.0, 0.93, 1.07, 0.86, 1.15)
"""Gaps that a trial at nodes takes, relative to the last that met the target."""


def _planned(box: Sines, target: float) -> Sines:
    plan = _at_nodes(box, target) if box.nu == math.inf else None
    plan = _joined(box, target, GAPS) if plan is None else plan
    if plan is None:
        raise NotConverged(f"target: expected one that {MOST_FUNCTIONS:g} functions reach, got {target:g}")
    return plan


def _placed(box: Sines, gap: float, most: float) -> Sines:
    """L = S + gap, and in each dimension the functions up to the frequency of number ``most`` in the widest one."""
    length = box.reach + gap
    return replace(box, c=length / box.reach, m=np.maximum(np.ceil(most * length / length.max() - 1e-9), 1.0))


def _joined(box: Sines, target: float, gaps: Float) -> Sines | None:
    """The fewest functions by images and omitted functions, each bounded on its own, and their gap; None if none do."""
    best: tuple[int, float] | None = None
    for ratio in (1.18, 1.04, 1.0):
        for gap in gaps.tolist():
            moved = dirichlet.by_images(_placed(box, gap, 1.0))
            if moved.divergence < target and (best is None or best[0] > 1):
                m = _least_m(box, gap, moved, target, MOST_FUNCTIONS if best is None else best[0] - 1)
                best = best if m is None else (m, gap)
        if best is None:
            return None
        gaps = best[1] * ratio ** np.array([-2.0, -1.0, 1.0, 2.0])
    return _placed(box, best[1], float(best[0])) if best is not None else None


def _least_m(box: Sines, gap: float, moved: dirichlet.ImageBound, target: float, most: int) -> int | None:
    """The least m ≤ most, of the widest dimension, whose joined bound is at most the target with this gap."""

    def enough(m: int) -> bool:
        return dirichlet.joined(_placed(box, gap, float(m)), moved) <= target

    if not enough(most):
        return None
    return bisected(enough, 0, most)


def _at_nodes(box: Sines, target: float) -> Sines | None:
    """The fewest functions by the values at nodes; None if these are too many.

    The gap starts where the images take a tenth of the target: the logarithm of their divergence is nearly linear in
    the squared gap.
    """
    gap, before = 1.8, (0.0, 0.0)
    for _ in range(5):
        divergence = dirichlet.by_images(_placed(box, gap, 1.0)).divergence
        if not dirichlet.nodes(_placed(box, gap, 1.0)):
            return None
        excess = math.log(max(divergence, 1e-300)) - math.log(0.1) - math.log(target) if divergence < math.inf else 8.0
        if abs(excess) < 0.7:
            break
        slope = (excess - before[1]) / (gap * gap - before[0]) if before[0] and gap * gap != before[0] else -4.0
        before = (gap * gap, excess)
        gap = math.sqrt(max(gap * gap - excess / (slope if slope < -0.5 else -4.0), 0.01))
    start = _joined(box, target, np.array([gap]))
    if start is None:
        return None
    gap, most = float(start.c[0] * start.reach[0] - start.reach[0]), int(start.m.max())

    def enough(m: int) -> bool:
        nonlocal gap
        for scale in SCALES:
            if dirichlet.at_nodes(_placed(box, gap * scale, float(m)), kept=True) <= target:
                gap *= scale
                return True
        return False

    if not enough(most):
        return start
    most = bisected(enough, most // 2, most)
    return _fewer(_placed(box, gap, float(most)), target)


def _fewer(box: Sines, target: float) -> Sines:
    """One function fewer in one dimension after the other, where the target allows it."""
    for d in range(box.dim if box.dim > 1 else 0):
        fewer = box.m.copy()
        fewer[d] -= 1.0
        trial = replace(box, m=fewer)
        if fewer[d] >= 1.0 and dirichlet.at_nodes(trial, kept=True) <= target:
            box = trial
    return box
