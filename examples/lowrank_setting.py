"""The common setting of Figs. 1 and 2 of paper 001 (Daskalakis et al., low-rank): kernels, inputs, nested features.

N points, noise σ² = 1, target KL <= 0.01·N.  Gaussian kernel exp(-2π²|x - x'|²) with x ~ N(0, I/16²); Matérn-1/2 with
x uniform on a cube with the same standard deviation.  The paper does not give the lengthscale of its Matérn kernel; we
use 1/(2π), which is that of its Gaussian kernel in exp(-|x - x'|²/(2l²)).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import Gaussian, Matern, SquaredExponential, Uniform
from gpbounds.files import replacing
from gpbounds.kernels import Stationary
from gpbounds.lowrank import fourier_kl
from gpbounds.lowrank.features.fourier import CosineSine
from gpbounds.plotting import BLUE, GREEN

NOISE, EPS, DELTA = 1.0, 0.01, 0.05
STD, LENGTHSCALE = 1.0 / 16.0, 1.0 / (2.0 * np.pi)
MOST = 2**40
"""Largest number of frequencies that the search tries."""


@dataclass(frozen=True)
class Setting:
    """A kernel and the law of its inputs, in any dimension."""

    name: str
    color: str
    kernel: Stationary

    @property
    def smooth(self) -> bool:
        return isinstance(self.kernel, SquaredExponential)

    def law(self, D: int) -> Gaussian | Uniform:
        half = np.full(D, np.sqrt(3.0) * STD)
        return Gaussian(STD, D) if self.smooth else Uniform(-half, half)

    def points(self, N: int, D: int, rng: np.random.Generator) -> np.ndarray:
        if self.smooth:
            return STD * rng.standard_normal((N, D))
        return np.sqrt(3.0) * STD * rng.uniform(-1.0, 1.0, (N, D))

    def bound(self, N: int, m: int, X: np.ndarray) -> float:
        """The proved bound for m random frequencies: by leverage for the Gaussian kernel, plain otherwise."""
        arguments: dict[str, Any] = {"features": "classical"}
        if self.smooth:
            arguments = {"width": np.ptp(X, axis=0)}
        assert isinstance(self.kernel, SquaredExponential | Matern)
        return float(fourier_kl(self.kernel, N, m, noise=NOISE, delta=DELTA, **arguments))


GAUSSIAN = Setting("Gaussian kernel", BLUE, SquaredExponential(1.0, LENGTHSCALE))
MATERN = Setting("Matérn-1/2 kernel", GREEN, Matern(0.5, 1.0, LENGTHSCALE))
SETTINGS = (GAUSSIAN, MATERN)


def side_by_side(features: CosineSine, X: np.ndarray) -> np.ndarray:
    """Fourier features with adjacent cosine and sine of each frequency: the first r give Sigma = (2/r) Ξ_rΞ_rᵀ."""
    m = features.rank // 2
    Xi = features.fit(X)(X) * np.sqrt(m)
    return np.asarray(Xi[:, np.arange(2 * m).reshape(2, m).T.ravel()])


def label_ends(ax: Any, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.052) -> None:
    """Label lines at their right ends (x, y, text, colour); labels that would overlap are moved up and down."""
    from gpbounds.plotting.elements import TEXT

    low, high = np.log(ax.get_ylim())
    order = sorted(ends, key=lambda end: end[1])
    wanted = np.array([(np.log(y) - low) / (high - low) for _, y, _, _ in order])
    at = wanted.copy()
    for _ in range(200):
        for i in range(len(at) - 1):
            need = gap * max(order[i][2].count("\n"), order[i + 1][2].count("\n"), 0) * 0.5 + gap
            close = need - (at[i + 1] - at[i])
            if close > 0:
                at[i], at[i + 1] = at[i] - 0.5 * close, at[i + 1] + 0.5 * close
    for (x, _, text, color), height in zip(order, at, strict=True):
        place = (x, float(np.exp(low + height * (high - low))))
        ax.annotate(text, place, xytext=(9, 0), textcoords="offset points", va="center", fontsize=TEXT - 1, color=color)


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a CSV file beside the picture; unknown cells are empty."""
    with replacing(path.with_suffix(".csv")) as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows([["" if cell is None else cell for cell in row] for row in rows])
