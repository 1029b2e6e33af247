"""Kernel, mean, noise and inducing points of a trained model, for `evidence`, `gap` and audits; as a JSON file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_points, exactly
from gpbounds.files import replacing
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import KERNEL
from gpbounds.means import LinearMean
from gpbounds.records import Record, Slot, Slots, listed, or_none, read_json, to_json
from gpbounds.validation import noise_variance


def _points(Z: Any, where: str) -> Any:
    return np.asarray(as_points(Z, where), dtype=np.float64)


def _noise(noise: Any, where: str) -> float:
    if isinstance(noise, bool) or not isinstance(noise, int | float):
        raise ValueError(f"noise: expected a number, got {noise!r}")
    return noise_variance(float(noise))


@dataclass(frozen=True)
class Model(Record):
    """Kernel, mean, noise and inducing points of a trained model.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ², a variance.
    Z : array (M, D) or None
        Inducing inputs; None for a model without inducing points: choose Z yourself.
    mean : LinearMean or None
        The mean function; None for 0.  Bounds assume a mean of 0: pass them `residuals` as y.
    """

    kernel: Kernel
    noise: float
    Z: Float | None
    mean: LinearMean | None = None
    stored: ClassVar[Slots] = {
        "kernel": KERNEL,
        "noise": Slot(_noise),
        "Z": or_none(_points),
        "mean": or_none(LinearMean.from_dict),
    }

    def residuals(self, X: ArrayLike, y: ArrayLike) -> Float:
        """y − mean(x) for the rows of X (N, D) and y (N,) or (N, P), in host memory.

        The evidence of y under the model is that of these residuals under a zero mean.

        >>> from gpbounds.kernels import Matern
        >>> Model(Matern(0.5), 0.1, None, LinearMean(2.0)).residuals([0.0, 1.0], [2.0, 5.0])
        array([0., 3.])
        """
        targets = np.asarray(exactly("y", y), dtype=np.float64)
        if self.mean is None:
            return targets
        mean = self.mean(as_host_points(X, "X"))
        return targets - (mean if targets.ndim == 1 else mean[:, None])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, with all digits; `gpbounds audit --model` reads it.

        Raises
        ------
        ValueError
            for a kernel that is not one of gpbounds.
        """
        text = to_json({"kind": KIND, "version": VERSION, **self.to_dict()}, indent=1)
        with replacing(path) as file:
            file.write(text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """The model in a file that `save` wrote.

        Raises
        ------
        ValueError
            for a file of another kind, or with values that are no model.
        OSError
            if the file cannot be read.
        """
        name = os.fspath(path)
        wrong = f"{name}: expected a model that gpbounds.renyi.Model.save wrote"
        record = read_json(path, "a model that gpbounds.renyi.Model.save wrote")
        marks = (record.get("kind"), record.get("version")) if isinstance(record, dict) else (None, None)
        if marks != (KIND, VERSION) or isinstance(marks[1], bool):
            raise ValueError(f"{wrong}, got another JSON file, or one of another version")
        try:
            own = {name: value for name, value in record.items() if name not in ("kind", "version")}
            if unknown := set(own) - set(cls.stored):
                raise ValueError(f"unknown field(s) {listed(sorted(unknown))}")
            return cls.from_dict(own)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"{wrong}, got values that are no model: {' '.join(str(error).split())[:300]}") from None


KIND, VERSION = "imported model", 1
"""The kind and the version of a stored file."""
