"""Kernel, mean, noise and inducing points of a trained model, for `evidence`, `gap` and audits; as a JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_points, exactly
from gpbounds.files import read_json, replacing
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import kernel_from_plain, kernel_to_plain
from gpbounds.means import LinearMean, to_plain
from gpbounds.validation import noise_variance


@dataclass(frozen=True)
class Model:
    """Kernel, mean, noise and inducing points of a trained model.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ², a variance.
    Z : array (M, D) or None
        Inducing inputs; None for a model without inducing points: choose Z yourself.
    mean : LinearMean or None
        The mean function; None for 0.  Bounds speak of y − mean: pass them `residuals`.
    """

    kernel: Kernel
    noise: float
    Z: Float | None
    mean: LinearMean | None = None

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
        record = {
            "kind": KIND,
            "version": VERSION,
            "kernel": kernel_to_plain(self.kernel),
            "noise": self.noise,
            "Z": None if self.Z is None else self.Z.tolist(),
            "mean": None if self.mean is None else to_plain(self.mean),
        }
        with replacing(path) as file:
            json.dump(record, file, indent=1, allow_nan=False)

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
            if unknown := set(record) - {"kind", "version", "kernel", "noise", "Z", "mean"}:
                raise ValueError(f"unknown field(s) {', '.join(map(repr, sorted(unknown)))}")
            Z = None if record["Z"] is None else np.asarray(as_points(record["Z"], "Z"), dtype=np.float64)
            mean = None if record["mean"] is None else LinearMean(**record["mean"])
            noise = record["noise"]
            if isinstance(noise, bool) or not isinstance(noise, int | float):
                raise TypeError(f"noise: expected a number, got {noise!r}")
            return cls(kernel_from_plain(record["kernel"]), noise_variance(float(noise)), Z, mean)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"{wrong}, got values that are no model: {' '.join(str(error).split())[:300]}") from None


KIND, VERSION = "imported model", 1
"""Marks of a file."""
