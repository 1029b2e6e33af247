"""The table of kernels in docs/kernels.md says what the code does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fitting.features import FourierMap, MixedMap
from fitting.features.choices import fourier_map
from gpbounds import Empirical, Gaussian, Uniform, rate, spectrum
from gpbounds.bound import Bound
from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    White,
    plain,
)
from gpbounds.lowrank import FourierFeatures, fourier_kl
from gpbounds.pacbayes.certificate import priors

PAGE = Path(__file__).parent.parent / "docs" / "kernels.md"
X = np.random.default_rng(0).uniform(-1.0, 1.0, (12, 2))
KERNELS: dict[str, Kernel] = {
    "`SquaredExponential`": SquaredExponential(1.0, 0.8),
    "`Matern`, ν = ½": Matern(0.5),
    "`Matern`, ν = 3/2, 5/2, …": Matern(2.5),
    "`Matern`, other ν": Matern(0.8),
    "`RationalQuadratic`": RationalQuadratic(0.7),
    "`Periodic`": Periodic(1.5),
    "`Linear`": Linear(0.8),
    "`Polynomial`": Polynomial(2, 0.8),
    "`Constant`": Constant(0.7),
    "`White`": White(0.3),
    "`k.on(columns)`, k squared exponential": SquaredExponential(1.0, 0.8).on([1]),
    "sum of squared exponential and linear": SquaredExponential(1.0, 0.8) + Linear(0.8),
    "product on different columns": SquaredExponential(1.0, 0.8).on([0]) * SquaredExponential(1.0, 0.9).on([1]),
    "product on the same columns": SquaredExponential(1.0, 0.8) * Periodic(1.5),
}
SUPPORTED = (ValueError, TypeError)


def of_spectrum(kernel: Kernel, inputs: Gaussian | Uniform) -> str:
    """In as many dimensions as the kernel reads: two for kernels on columns, else one."""
    try:
        eigenvalues = spectrum(kernel, inputs=inputs)
    except SUPPORTED:
        return "no"
    return "certified" if eigenvalues.certified else "estimated"


def answered(call: Callable[[], object]) -> str:
    try:
        call()
    except SUPPORTED:
        return "no"
    return "yes"


def proved(call: Callable[[], Bound]) -> str:
    try:
        return "yes" if call().certified else "no"
    except SUPPORTED:
        return "no"


def in_low_rank_gp(kernel: Kernel) -> str:
    try:
        features = fourier_map(kernel, 12, X, 0)
    except SUPPORTED:
        return "no"
    if isinstance(features, MixedMap) and features.line_spectrum:
        return "lines"
    assert isinstance(features, FourierMap | MixedMap)
    return "random"


def columns(kernel: Kernel) -> list[str]:
    """What the table says in the row of ``kernel``."""
    two = "OnColumns" in json.dumps(plain.kernel_to_plain(kernel)) if not isinstance(kernel, White) else False
    gaussian, box = (Gaussian(dim=2), Uniform([-1.0, -1.0], [1.0, 1.0])) if two else (Gaussian(), Uniform(-1.0, 1.0))
    given = {"inputs": Empirical(X), "noise": 0.1}
    return [
        of_spectrum(kernel, gaussian),
        of_spectrum(kernel, box),
        answered(lambda: rate(kernel, 12, 4, 1.0, **given)),
        proved(lambda: rate(kernel, 12, 4, 1.0, **given, y=X[:, 0], draws=2)),
        answered(lambda: rate(kernel, 12, 4, 1.0, inputs=gaussian, noise=0.1, simulate=39, rng=0)),
        answered(lambda: FourierFeatures(kernel, 10, 0).fit(X)),  # type: ignore[arg-type]
        answered(lambda: fourier_kl(kernel, 100, 50, noise=0.1, features="classical")),
        in_low_rank_gp(kernel),
        answered(lambda: priors.hyperparameters(kernel)),
    ]


def table() -> dict[str, list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells[1:] if not set(row[0]) <= {"-", " "}}


def test_every_kernel_has_a_row() -> None:
    assert list(table()) == list(KERNELS)
    exported = {*plain.FIELDS, "White"}
    assert exported <= {type(kernel).__name__ for kernel in KERNELS.values()}


@pytest.mark.parametrize("name", KERNELS)
def test_the_row_says_what_the_code_does(name: str) -> None:
    assert table()[name] == columns(KERNELS[name])
