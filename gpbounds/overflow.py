"""Products and quotients beyond the range of doubles: a refusal in place of infinity, NaN or an error of NumPy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gpbounds.errors import NonFinite

P = ParamSpec("P")
T = TypeVar("T")

MIDDLE = 75
"""Numbers between 10^−`MIDDLE` and 10^`MIDDLE` have products of four factors, and are not named in a refusal."""


def within_doubles(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, which refuses arguments for which its arithmetic leaves the range of doubles.

    An overflow, a division by 0 and an invalid operation raise `gpbounds.errors.NonFinite`, whose message names the
    arguments that are far from 1, unless the body handles them with `numpy.errstate`.  A quotient such as K/σ² may
    overflow although a bound is a double: to say so is right, and an infinity inside of the formula is not.

    >>> @within_doubles
    ... def ratio(variance, *, noise):
    ...     return float(np.float64(variance) / noise)
    >>> ratio(2.0, noise=5e-324)
    Traceback (most recent call last):
        ...
    gpbounds.errors.NonFinite: noise: expected numbers whose products and quotients are within the range of doubles, \
got noise = 4.94e-324: state y in a unit u in which they are nearer to 1, with noise and variances in u²
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                return function(*args, **kwargs)
        except (FloatingPointError, OverflowError, ZeroDivisionError) as fault:
            raise NonFinite(_refusal(signature.bind(*args, **kwargs).arguments)) from fault

    return guarded


def _refusal(arguments: dict[str, Any]) -> str:
    far = sorted(_far_from_one(arguments), key=lambda each: -abs(each[1]))[:3]
    names = ", ".join(dict.fromkeys(name for name, _ in far)) or ", ".join(arguments)
    got = " and ".join(f"{name} = {_ten_to(log)}" for name, log in far) or "numbers that together leave it"
    return (
        f"{names}: expected numbers whose products and quotients are within the range of doubles, got {got}: state y "
        "in a unit u in which they are nearer to 1, with noise and variances in u²"
    )


def _far_from_one(arguments: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Names of arguments with numbers beyond `MIDDLE`, and the decimal logarithm of the most extreme of each."""
    parts: dict[str, Any] = {}
    for name, value in arguments.items():
        of_model = {f"{name}.{part}": getattr(value, part, None) for part in ("kernel", "noise")}
        parts |= {name: value} if None in of_model.values() else of_model
    for name, value in parts.items():
        logs = getattr(value, "log_parameters", None)
        if logs is not None:
            decimals = np.asarray(logs, dtype=np.float64) / np.log(10.0)
        else:
            try:
                sizes = np.abs(np.asarray(value, dtype=np.float64)).ravel()
            except (TypeError, ValueError):
                continue
            decimals = np.log10(sizes[(sizes > 0.0) & np.isfinite(sizes)])
        if decimals.size and abs(worst := float(decimals[np.abs(decimals).argmax()])) > MIDDLE:
            yield name, worst


def _ten_to(log: float) -> str:
    """10^``log`` with three digits, also where it is a power of 10 below the normal doubles."""
    exponent = int(np.floor(log))
    return f"{10.0 ** (log - exponent):.3g}e{exponent:+d}".replace("e+", "e")
