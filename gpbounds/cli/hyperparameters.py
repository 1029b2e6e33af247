"""Kernel and noise for real data: what is given is kept, the rest maximises the marginal likelihood."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.cli.data import Data
from gpbounds.cli.options import build_kernel
from gpbounds.kernels import Kernel
from gpbounds.validation import positive

FIT_ROWS = 500
"""Rows that the marginal likelihood looks at: each of its steps costs their cube."""


@dataclass(frozen=True)
class Hyperparameters:
    """Kernel and noise variance, and where they come from.

    Attributes
    ----------
    kernel : Kernel
    noise : float
    origin : str
        One sentence.
    fitted : tuple of str
        Names of those that were fitted to the data; empty where all were given.
    notes : tuple of str
        What the optimiser had to say.
    """

    kernel: Kernel
    noise: float
    origin: str
    fitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def warning(self) -> tuple[str, ...]:
        """What a plan must say where something was fitted."""
        if not self.fitted:
            return ()
        return (
            "The theorem holds for fixed hyperparameters; here they were fitted to the data "
            f"({', '.join(self.fitted)}).",
        )


def given(nu: float, variance: float | None, lengthscale: Any, noise: float | None) -> Hyperparameters:
    """Hyperparameters from the command line, 1, 1 and 0.1 where they are None."""
    kernel = build_kernel(nu, 1.0 if variance is None else variance, 1.0 if lengthscale is None else lengthscale)
    return Hyperparameters(kernel, 0.1 if noise is None else noise, "Kernel and noise are as given.")


def fit(
    data: Data,
    nu: float = math.inf,
    *,
    variance: float | None = None,
    lengthscale: Any = None,
    noise: float | None = None,
    shared: bool = False,
    rows: int = FIT_ROWS,
    seed: int = 0,
) -> Hyperparameters:
    """Those of variance, lengthscale (one per input, or one ``shared``) and noise that are None, fitted to ``data``.

    scikit-learn's GaussianProcessRegressor: marginal likelihood on at most ``rows`` seeded rows, L-BFGS from 1, √D, ½.
    """
    if None not in (variance, lengthscale, noise):
        return given(nu, variance, lengthscale, noise)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as sk

    part = data.subset(rows, seed)
    for name, value in (("variance", variance), ("lengthscale", lengthscale), ("noise", noise)):
        if value is not None:
            positive(name, value)
    start = math.sqrt(data.D) * (1.0 if shared else np.ones(data.D)) if lengthscale is None else lengthscale
    limits: Any = (1e-3, 1e5)
    scales = limits if lengthscale is None else "fixed"
    shape = sk.RBF(start, scales) if nu == math.inf else sk.Matern(start, scales, nu=nu)
    covariance = sk.ConstantKernel(*((1.0, limits) if variance is None else (variance, "fixed"))) * shape
    covariance += sk.WhiteKernel(*((0.5, (1e-6, 1e2)) if noise is None else (noise, "fixed")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        found = GaussianProcessRegressor(covariance, random_state=seed).fit(part.X, part.y).kernel_
    names = {"variance": variance, "lengthscale": lengthscale, "noise": noise}
    fitted = tuple(name for name, value in names.items() if value is None)
    kernel = build_kernel(nu, float(found.k1.k1.constant_value), found.k1.k2.length_scale)
    origin = (
        f"{', '.join(fitted).capitalize()} by marginal likelihood (scikit-learn) on {part.N} of {data.N} rows, "
        f"{'one shared lengthscale' if shared else 'one lengthscale per input'}."
    )
    return Hyperparameters(kernel, float(found.k2.noise_level), origin, fitted, _what_was_said(caught))


def _what_was_said(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """The optimiser's warnings in one sentence each."""
    texts = [" ".join(str(w.message).split()) for w in caught]
    edges = [text for text in texts if "close to the specified" in text]
    others = [f"The optimiser said: {text.rstrip('.')}." for text in texts if text not in edges]
    if edges:
        others.append(f"{len(edges)} hyperparameter(s) ended at the edge of the range searched.")
    return tuple(others)
