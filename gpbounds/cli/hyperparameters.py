"""Kernel and noise for real data: what is given is kept, the rest maximises the marginal likelihood."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.cli.data import Data
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.validation import positive

FIT_ROWS = 500
"""Rows that the marginal likelihood looks at: each of its steps costs their cube."""

RANGES = {"variance": (1e-3, 1e5), "lengthscale": (1e-3, 1e5), "noise": (1e-6, 1e2)}
"""Where they are looked for; inputs and targets are standardised."""


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
    kernel = stationary(nu, 1.0 if variance is None else variance, 1.0 if lengthscale is None else lengthscale)
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

    `fitting.ExactGP`: marginal likelihood on at most ``rows`` seeded rows, L-BFGS-B from 1, √D, ½.
    """
    if None not in (variance, lengthscale, noise):
        return given(nu, variance, lengthscale, noise)
    # The command line is an application above both packages. Besides this file only training.py imports fitting: a
    # test (tests/test_package.py) keeps it so.
    from sklearn.exceptions import ConvergenceWarning

    from fitting import ExactGP

    part = data.subset(rows, seed)
    for name, value in (("variance", variance), ("lengthscale", lengthscale), ("noise", noise)):
        if value is not None:
            positive(name, value)
    start = math.sqrt(data.D) * (1.0 if shared else np.ones(data.D)) if lengthscale is None else lengthscale
    kernel = stationary(nu, 1.0 if variance is None else variance, start)
    free = {"variance": variance is None, "lengthscale": lengthscale is None, "noise": noise is None}
    fitted = tuple(name for name, wanted in free.items() if wanted)
    names = {name: name.partition("[")[0] for name in (*kernel.parameter_names, "noise")}
    model = ExactGP(
        kernel,
        0.5 if noise is None else noise,
        fixed=tuple(name for name, kind in names.items() if not free[kind]),
        limits={name: RANGES[kind] for name, kind in names.items() if free[kind]},
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by `_what_was_said`
        model.fit(part.X, part.y)
    origin = (
        f"{', '.join(fitted).capitalize()} by marginal likelihood (fitting.ExactGP) on {part.N} of {data.N} rows, "
        f"{'one shared lengthscale' if shared else 'one lengthscale per input'}."
    )
    found: Any = model.kernel_
    settled = stationary(
        nu,
        found.variance if variance is None else variance,
        found.lengthscale if lengthscale is None else lengthscale,  # what is given is kept, to the last digit
    )
    return Hyperparameters(
        settled, model.noise_ if noise is None else noise, origin, fitted, _what_was_said(model.remarks_)
    )


def _what_was_said(remarks: Sequence[Any]) -> tuple[str, ...]:
    """What training had to say, in one sentence each."""
    edges = [name for remark in remarks if "limit" in remark.kind for name in remark.names]
    texts = [" ".join(remark.text.split()).rstrip(".") for remark in remarks if "limit" not in remark.kind]
    said = [f"Training said: {text}." for text in texts]
    if edges:
        said.append(f"Hyperparameter(s) that ended at the edge of the range searched: {', '.join(edges)}.")
    return tuple(said)
