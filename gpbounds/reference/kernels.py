"""Covariance functions in mpmath, from their definitions and the JSON values of `gpbounds.kernels.plain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mpmath


def covariance(record: Mapping[str, Any], x: Sequence[float], z: Sequence[float]) -> Any:
    """k(x, z) for exact doubles.

    >>> covariance({"type": "Linear", "variance": [1.0, 0.5]}, [2.0, 1.0], [1.0, 4.0])
    mpf('4.0')
    """
    kind = record["type"]
    if kind == "Sum":
        return covariance(record["k1"], x, z) + covariance(record["k2"], x, z)
    if kind == "Product":
        return covariance(record["k1"], x, z) * covariance(record["k2"], x, z)
    if kind == "OnColumns":
        return covariance(record["kernel"], [x[d] for d in record["columns"]], [z[d] for d in record["columns"]])
    a, b = ([mpmath.mpf(float(value)) for value in row] for row in (x, z))

    def each(name: str) -> list[Any]:
        value = record[name]
        return [mpmath.mpf(float(v)) for v in (value if isinstance(value, Sequence) else [value] * len(a))]

    if kind in ("Linear", "Polynomial"):
        s = mpmath.fsum(v * p * q for v, p, q in zip(each("variance"), a, b, strict=True))
        return s if kind == "Linear" else (mpmath.mpf(record["offset"]) + s) ** record["degree"]
    variance = mpmath.mpf(record["variance"])
    if kind == "Constant":
        return variance
    gaps = [(p - q) / length for p, q, length in zip(a, b, each("lengthscale"), strict=True)]
    squared = mpmath.fsum(gap**2 for gap in gaps)
    if kind == "SquaredExponential":
        return variance * mpmath.exp(-squared / 2)
    if kind == "RationalQuadratic":
        shape = mpmath.mpf(record["shape"])
        return variance * (1 + squared / (2 * shape)) ** -shape
    if kind == "Periodic":
        turns = zip(a, b, each("period"), each("lengthscale"), strict=True)
        waves = [mpmath.sinpi((p - q) / period) / length for p, q, period, length in turns]
        return variance * mpmath.exp(-2 * mpmath.fsum(wave**2 for wave in waves))
    if kind == "Matern":
        nu, root = mpmath.mpf(record["nu"]), mpmath.sqrt(2 * mpmath.mpf(record["nu"]) * squared)
        if not root:
            return variance
        return variance * 2 ** (1 - nu) / mpmath.gamma(nu) * root**nu * mpmath.besselk(nu, root)
    raise ValueError(f"record: expected a kernel of gpbounds, got type {kind!r}")


def matrix(record: Mapping[str, Any], X: Sequence[Sequence[float]]) -> Any:
    """The matrix k(x_i, x_j)."""
    return mpmath.matrix([[covariance(record, x, z) for z in X] for x in X])
