"""Ranks of random Fourier features and of truncated Mercer expansions, a priori and given the rows."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpbounds.arrays import Float
from gpbounds.bound import UP, Plan, outward
from gpbounds.cli import options, worst
from gpbounds.cli.comparison import NAMES, Entry
from gpbounds.cli.problem import Problem, describe, describe_kernel, fitted_law, short
from gpbounds.cli.steps import full_stop
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Kernel, SquaredExponential
from gpbounds.numerics.search import least

ETA = 0.1
ONE_KERNEL = "the bound given the rows needs one kernel; it is omitted with --lengthscale-range."
NO_FUNCTIONS = (
    "gpbounds has no closed form for the eigenfunctions of this kernel and law (MercerFeatures has those of se with "
    "Gaussian inputs): the rank is valid, but you must compute the truncated expansion by other means."
)

Answers = tuple[list[Entry], list[str]]
Rows = Callable[[], tuple[float | None, int]]


def _worst(problem: Problem, make: Callable[[Kernel], Plan]) -> Plan:
    """The plan for the kernel with the largest rank."""
    every = [make(kernel) for kernel in problem.kernels]
    i = worst.worst_plan(every)
    at = (f"The worst kernel of the grid is {describe_kernel(problem.kernels[i])}.",) if len(every) > 1 else ()
    return replace(every[i], notes=(*every[i].notes, *at))


def _explained(plan: Plan, target: float, test_inputs: str, notes: tuple[str, ...]) -> Plan:
    """``plan`` with its target, the meaning of the target, and more notes."""
    from gpbounds.rates.base import total_variation
    from gpbounds.sandwich import predictive

    meaning: tuple[str, ...] = ()
    if plan.bound is not None:
        prediction = predictive(plan.bound, ETA, test_inputs=test_inputs)
        confidence = float(np.asarray(prediction.kl.confidence))
        sandwich = prediction.sandwich
        meaning = (
            f"KL <= {target:g} means: the approximation changes the probability of any event of y by at most "
            f"{outward(total_variation(target, 1.0), 'upper', 3)} (total variation).",
            f"With probability at least {outward(confidence, 'lower', 3)}, predictions of some of the N targets from "
            "the others have means within "
            f"{outward(float(sandwich.mean), 'upper', 3)} approximate standard deviations of the exact ones, and exact "
            f"variances (noise included) are between {outward(float(sandwich.low), 'lower', 3)} and "
            f"{outward(float(sandwich.high), 'upper', 3)} times the approximate ones (L-63, N-tail).",
        )
    return replace(plan, target=target, meaning=meaning, notes=(*plan.notes, *notes))


# Random Fourier features


def fourier(problem: Problem, args: argparse.Namespace, rows: Rows) -> Answers:
    """A priori for any inputs of a known width; given the rows, for their range and effective dimension."""
    from gpbounds.lowrank.fourier import fourier_rank

    entries: list[Entry] = []
    reasons: list[str] = []
    settings, target = problem.settings, args.target
    rule = "sharpest" if settings.form == "sharpest" else "printed"
    matern = not isinstance(problem.kernels[0], SquaredExponential)
    notes = ("A Matérn kernel: plain features from its spectral density (L-29); L-23 is for se.",) if matern else ()

    def ask(N: int, width: Float | None, dimension: Callable[[Kernel], float] | None = None) -> Plan:
        def plan_for(kernel: Kernel) -> Plan:
            return fourier_rank(
                kernel,
                N,
                noise=settings.noise,
                target=target,
                width=None if width is None or matern else width.tolist(),
                delta=settings.delta,
                rule=rule,
                effective_dimension=None if dimension is None else dimension(kernel),
                rigor=args.rigor,
            )

        return _explained(_worst(problem, plan_for), target, "fourier", notes)

    for case in problem.cases:
        if case.kind != "a priori":
            continue
        width = _width(args, case.inputs.dim)
        if width is None and isinstance(case.inputs, Uniform):
            width = case.inputs.widths
        if width is None and not matern:
            if problem.data is None:
                law = f"{describe(case.inputs)}, which are not bounded"
                reasons.append(f"no bound for {law}; state the range of the data with --width.")
            continue
        try:
            plan = ask(case.sizes[0], width)
        except ValueError as error:
            reasons.append(f"no a priori bound: {full_stop(error)}")
            continue
        entries.append(
            Entry(
                "a priori", f"{NAMES['fourier']}, a priori: {_box(width, case.inputs.dim, matern)}", _repr(width), plan
            )
        )
    if problem.data is not None and _one_kernel(problem, args, reasons):
        data = problem.data
        ranges = np.ptp(data.X, axis=0)
        width = _width(args, data.D)
        if width is not None and (width < ranges).any():
            j = int(np.argmax(width < ranges))
            raise options.UsageError(
                f"--width: expected at least the range of the data, {ranges[j]:.4g} in input {j + 1}, got {width[j]:g}"
            )
        width = _rounded_up(ranges) if width is None else width
        effective_dimension, needed = rows()
        try:
            plan = ask(data.N, width, None if effective_dimension is None else lambda kernel: effective_dimension)
        except ValueError as error:
            reasons.append(f"no data-aware bound: {full_stop(error)}")
        else:
            entries.append(
                Entry(
                    "data-aware",
                    f"{NAMES['fourier']}, data-aware: these {data.N} rows; {_box(width, data.D, matern)}",
                    _repr(width),
                    replace(plan, needed=needed),
                )
            )
    return entries, reasons


def _width(args: argparse.Namespace, dim: int) -> Float | None:
    """``--width``, one for each dimension."""
    if args.width is None:
        return None
    values = np.asarray(args.width, dtype=np.float64)
    if values.size not in (1, dim):
        raise options.UsageError(
            f"--width: expected one number or one for each of {dim} dimension(s), got {values.size}"
        )
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise options.UsageError(f"--width: expected positive numbers, got {short(values)}")
    return np.broadcast_to(values, (dim,))


def _rounded_up(ranges: Float) -> Float:
    """``ranges`` rounded up to four digits, for a readable hypothesis."""
    unit = 10.0 ** (np.floor(np.log10(ranges)) - 3.0)
    return np.maximum(ranges, np.round(np.ceil(ranges / unit * (1.0 + 1e-12)) * unit, 12))


def _box(width: Float | None, dim: int, matern: bool) -> str:
    if width is None or matern:
        return "any inputs"
    same = bool((width == width[0]).all())
    where = "" if dim == 1 else " in each dimension" if same else " in their dimensions"
    return f"any inputs of range {short(width[0] if same else width)}{where}"


def _repr(width: Float | None) -> str:
    return "any" if width is None else f"any of range {width.tolist()}"


# Mercer expansion


def mercer(problem: Problem, args: argparse.Namespace, rows: Rows) -> Answers:
    """A priori for inputs from the law; given the rows, from the residual of the features, without probability."""
    from gpbounds.lowrank.truncation import mercer_rank

    entries: list[Entry] = []
    reasons: list[str] = []
    settings, target = problem.settings, args.target
    for case in problem.cases:
        if case.kind != "a priori":
            continue
        law, N = case.inputs, case.sizes[0]
        closed = isinstance(law, Gaussian) and isinstance(problem.kernels[0], SquaredExponential)
        notes = (*problem.notes, *case.notes, *(() if closed else (NO_FUNCTIONS,)))

        def plan_for(kernel: Kernel, law: Any = law, N: int = N) -> Plan:
            return mercer_rank(
                kernel,
                N,
                target,
                inputs=law,
                noise=settings.noise,
                delta=settings.delta,
                form=settings.form,
                rigor=args.rigor,
            )

        try:
            plan = _explained(_worst(problem, plan_for), target, "mercer", notes)
        except ValueError as error:
            reasons.append(f"no a priori bound: {full_stop(error)}")
            continue
        entries.append(
            Entry("a priori", f"{NAMES['mercer']}, a priori: {describe(law)}, drawn independently", repr(law), plan)
        )
    if problem.data is not None and _one_kernel(problem, args, reasons):
        if not isinstance(problem.kernels[0], SquaredExponential):
            reasons.append("no data-aware bound: eigenfunctions in closed form are known for --kernel se only.")
        else:
            entries.append(_certificate(problem, args, rows))
    return entries, reasons


def _certificate(problem: Problem, args: argparse.Namespace, rows: Rows) -> Entry:
    """The least rank whose residual on these rows proves the target (L-54), without probability."""
    from tqdm import tqdm

    from gpbounds.lowrank.features import MercerFeatures
    from gpbounds.lowrank.truncation import residual_certificate

    data, target, noise = problem.data, args.target, problem.settings.noise
    (kernel,) = problem.kernels
    assert data is not None
    assert isinstance(kernel, SquaredExponential)
    law = fitted_law(data)
    last = min(args.most, data.N - 1)
    bounds: dict[int, Any] = {}

    def bound(r: int) -> Any:
        if r not in bounds:
            progress.update()
            residual = MercerFeatures(kernel, r, inputs=law).fit(data.X).residual_diagonal(data.X)
            bounds[r] = residual_certificate(residual * UP, noise=noise)
        return bounds[r]

    with tqdm(desc="Residual of the Mercer features", unit="rank", leave=False, disable=None) as progress:
        r = least(lambda r: float(bound(r)) <= target, 1, last)
        _, needed = rows()
        plan = Plan.at(r, bound, first=1, method="mercer", N=data.N, target=target, needed=needed)
    notes = [f"Features of {describe(law)}; the bound holds for these {data.N} rows; the kernel may be fitted to them."]
    if r is None:
        notes.append(
            f"No rank up to {last} (--most) meets the target; at this rank the bound is {float(bound(last)):.3g}."
        )
    title = f"{NAMES['mercer']}, data-aware: these {data.N} rows, residual of the features"
    return Entry("data-aware", title, f"{data.N} rows", _explained(plan, target, "given", tuple(notes)))


# Bounds from the rows


def _one_kernel(problem: Problem, args: argparse.Namespace, reasons: list[str]) -> bool:
    if args.lengthscale_range:
        reasons.append(ONE_KERNEL)
    return not args.lengthscale_range


def from_rows(problem: Problem, args: argparse.Namespace) -> tuple[float | None, int]:
    """(upper bound on tr K(K + σ²I)⁻¹, None beyond --rows rows; rank below which no approximation meets the target).

    The eigenvalues of a subset of the rows are below those of all rows, so the second number holds for all rows (L-10).
    """
    from gpbounds.linalg import eigen
    from gpbounds.lowrank.truncation import optimal_rank

    data = problem.data
    assert data is not None
    part, noise = data.subset(args.rows, args.seed), problem.settings.noise
    decomposed = eigen(problem.kernels[0](part.X), "k(X, X)")
    high: NDArray[np.float64] = decomposed.values + decomposed.rounding
    effective_dimension = float((high / (high + noise)).sum()) * (1.0 + 1e-12) if part.N == data.N else None
    return effective_dimension, optimal_rank(
        np.maximum(decomposed.values - decomposed.rounding, 0.0), args.target, noise=noise
    )
