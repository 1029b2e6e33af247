"""Argument checks for public functions; each error states what was expected and what it got.

The choice of a device and logarithms of parameters are such arguments.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, array_of, exactly, is_cupy
from gpbounds.errors import shown


def _numbers(name: str, value: ArrayLike, expected: str) -> Float:
    if is_cupy(value):
        raise ValueError(f"{name}: expected {expected} in host memory, got a CuPy array: pass its .get()")
    given = exactly(name, value)
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind not in "biuf":
            raise TypeError
        return numbers.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}") from None


def _check(name: str, numbers: Float, good: Any, expected: str, end: str = "") -> Float:
    """``numbers`` if all are ``good``; an error states the first other one, without the suffix ``end``."""
    good = np.asarray(good) & np.isfinite(numbers)
    if not good.all():
        bad = numbers[~good].flat[0]
        where = "" if numbers.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(~good)[0])}"
        raise ValueError(f"{name}: expected {expected}, got {str(bad).removesuffix(end)}{where}")
    return numbers


def positive(name: str, value: ArrayLike) -> Float:
    """Finite numbers > 0."""
    numbers = _numbers(name, value, "positive numbers")
    return _check(name, numbers, numbers > 0, "a positive finite number")


def non_negative(name: str, value: ArrayLike) -> Float:
    """Finite numbers >= 0."""
    numbers = _numbers(name, value, "numbers >= 0")
    return _check(name, numbers, numbers >= 0, "a finite number >= 0")


def finite(name: str, value: ArrayLike) -> Float:
    """Finite numbers."""
    numbers = _numbers(name, value, "finite numbers")
    return _check(name, numbers, True, "a finite number")


def scalar(check: Callable[[str, ArrayLike], Float], name: str, value: ArrayLike) -> float:
    """``value`` as a float; it must be a single number that passes ``check``.

    >>> scalar(positive, "noise", 0.1)
    0.1
    """
    number = check(name, value)
    if number.ndim:
        raise ValueError(f"{name}: expected one number, got shape {number.shape}")
    return float(number)


def positive_each(name: str, value: ArrayLike) -> float | Float:
    """A positive float for all dimensions, or an array (D,) of them."""
    numbers = positive(name, value)
    if numbers.ndim > 1 or numbers.size == 0:
        raise ValueError(f"{name}: expected a number or one per dimension, got shape {numbers.shape}")
    return float(numbers) if numbers.ndim == 0 else numbers


def each_dimension(name: str, value: ArrayLike, dim: int) -> Float:
    """One value for each dimension of inputs that have ``dim``, from one for all or an array (D,).

    >>> each_dimension("lengthscale", 2.0, 3)
    array([2., 2., 2.])
    """
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim == 0:
        return np.full(dim, numbers)
    if numbers.size != dim:
        raise ValueError(f"expected inputs with {numbers.size} dimension(s), one per {name}, got {dim}")
    own = numbers.view()
    own.flags.writeable = False  # it may be the kernel's own array
    return own


def broadcast(**numbers: Any) -> list[Any]:
    """The arrays in their common shape; an error names those whose shapes do not broadcast.

    >>> [array.shape for array in broadcast(N=np.ones(3), delta=np.ones(()))]
    [(3,), (3,)]
    """
    try:
        return list(np.broadcast_arrays(*numbers.values()))
    except ValueError:
        shapes = " and ".join(f"{name} of shape {np.shape(array)}" for name, array in numbers.items())
        raise ValueError(f"{', '.join(numbers)}: expected shapes that broadcast, got {shapes}") from None


NOISE = (1e-300, 1e300)
"""Noise variances with which matrices of data are computed: σ², 1/σ² and 2πσ² are normal doubles."""


def noise_variance(value: Any) -> float:
    """σ² within `NOISE`, one number."""
    checked = positive("noise", value)
    if checked.ndim:
        raise ValueError(
            f"noise: expected one number (the noise variance), got shape {checked.shape}: where each row has its own, "
            "divide y, features, and rows and columns of matrices by the standard deviations, and pass noise=1"
        )
    if not NOISE[0] <= checked <= NOISE[1]:
        raise ValueError(f"noise: expected a variance from 1e-300 to 1e300, got {float(checked)!r}: rescale y")
    return float(checked)


def extended(name: str, value: ArrayLike) -> Float:
    """Numbers in [0, ∞]; −0 counts as 0."""
    numbers = _numbers(name, value, "numbers >= 0 (infinity allowed)")
    _check(name, np.where(numbers == np.inf, 0.0, numbers), numbers >= 0, "a number >= 0 (infinity allowed)")
    return np.abs(numbers)


def open_unit(name: str, value: ArrayLike) -> Float:
    """Numbers strictly between 0 and 1."""
    numbers = _numbers(name, value, "numbers in (0, 1)")
    return _check(name, numbers, (numbers > 0) & (numbers < 1), "a number in (0, 1)")


def closed_unit(name: str, value: ArrayLike) -> Float:
    """Numbers in [0, 1]."""
    numbers = _numbers(name, value, "numbers in [0, 1]")
    return _check(name, numbers, (numbers >= 0) & (numbers <= 1), "a number in [0, 1]")


def positive_unit(name: str, value: ArrayLike) -> Float:
    """Numbers in (0, 1]."""
    numbers = _numbers(name, value, "numbers in (0, 1]")
    return _check(name, numbers, (numbers > 0) & (numbers <= 1), "a number in (0, 1]")


def order(name: str, value: ArrayLike) -> Float:
    """Rényi orders in (0, 1]; 1 is the Kullback-Leibler limit."""
    numbers = _numbers(name, value, "numbers in (0, 1]")
    return _check(name, numbers, (numbers > 0) & (numbers <= 1), "a number in (0, 1] (1 is the KL limit)")


def whole(name: str, value: ArrayLike, low: int = 1) -> Float:
    """Whole numbers >= ``low``, returned as float64 (exact up to 2^53)."""
    expected = f"a whole number >= {low}"
    numbers = _numbers(name, value, expected)
    with np.errstate(invalid="ignore"):
        good = (numbers >= low) & (numbers == np.floor(numbers)) & (numbers < 2.0**53)
    return _check(name, numbers, good, expected, ".0")


def count(name: str, value: Any, low: int = 1) -> int:
    """One whole number >= ``low`` as an int."""
    numbers = whole(name, value, low)
    if numbers.ndim:
        raise ValueError(f"{name}: expected one whole number, got shape {numbers.shape}")
    return int(numbers)


REPETITIONS = 10**7
"""Largest number of repetitions, one after another: at a tenth of a millisecond each they take a quarter of an hour."""


def repetitions(name: str, value: Any, low: int = 1) -> int:
    """`count` of what is done so many times, one after another: at most `REPETITIONS`.

    >>> repetitions("sets", 2**31)
    Traceback (most recent call last):
    ...
    ValueError: sets: expected at most 10,000,000, as each is computed in turn, got 2,147,483,648
    """
    number = count(name, value, low)
    if number > REPETITIONS:
        raise ValueError(f"{name}: expected at most {REPETITIONS:,}, as each is computed in turn, got {number:,}")
    return number


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of the ``allowed`` words."""
    if not (isinstance(value, str) and value in allowed):
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    return str(value)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def jitter_or_auto(jitter: Any) -> float | Literal["auto"]:
    """A number >= 0 to add to a diagonal, or "auto"."""
    if isinstance(jitter, str) and jitter == "auto":
        return "auto"
    if isinstance(jitter, str | bytes):
        raise ValueError(f"jitter: expected a number >= 0 or 'auto', got {shown(jitter)}")
    return scalar(non_negative, "jitter", jitter)


def instance(name: str, value: Any, kinds: type | UnionType | tuple[type, ...], expected: str) -> Any:
    """``value``, which must be of one of ``kinds``; ``expected`` says what one is and where to get it.

    >>> instance("law", 0.5, str, "a word")
    Traceback (most recent call last):
    ...
    ValueError: law: expected a word, got 0.5
    """
    if not isinstance(value, kinds):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return value


def path_of(path: Any) -> str:
    """A path as a string."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"path: expected the path of a file, got {shown(path)}")
    return os.fspath(path)


def function(name: str, value: Any, expected: str) -> Any:
    """``value``, which must be callable and no class."""
    if isinstance(value, type) or not callable(value):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return value


def column_numbers(columns: Any) -> tuple[int, ...]:
    """Different numbers of columns, at least one.

    >>> column_numbers([0, 2])
    (0, 2)
    """
    numbers = array_of(np, "columns", columns)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise ValueError(f"columns: expected a list of column numbers such as [0, 2], got {shown(columns)}")
    if int(numbers.min()) < 0 or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(f"columns: expected different numbers >= 0, got {numbers.tolist()}")
    return tuple(numbers.tolist())


@contextlib.contextmanager
def within_memory(name: str) -> Iterator[None]:
    """A refusal by ``name`` where the arrays that an argument asks for do not fit into memory."""
    try:
        yield
    except MemoryError as error:
        asked = " ".join(str(error).split()) or "they do not"
        raise ValueError(f"{name}: expected a number for which the arrays fit into memory: {asked}") from None


def names_of(columns: Any) -> tuple[str, ...]:
    """The names of columns: a sequence of words, not one word."""
    listed = columns if isinstance(columns, list | tuple) else getattr(columns, "tolist", list)()
    if isinstance(columns, str | bytes) or not listed or not all(isinstance(name, str) for name in listed):
        raise ValueError(f"columns: expected a list of names, got {shown(columns)}")
    return tuple(listed)


def generator(rng: Any) -> np.random.Generator:
    """The Generator ``rng``, or a new one from a seed; None stands for a seed that nobody knows.

    >>> bool(generator(7).integers(100) == generator(np.random.default_rng(7)).integers(100))
    True
    """
    if not isinstance(rng, str | bytes):
        with contextlib.suppress(TypeError, ValueError):
            return np.random.default_rng(rng)
    raise ValueError(f"rng: expected a whole number >= 0 as a seed or a NumPy Generator, got {shown(rng)}")


# The words that ``rigor=`` takes.

PACKAGES = ("gpbounds", "fitting")
RIGOR = ("auto", "float", "sharp")
"""The words that ``rigor=`` takes.

- "auto": doubles with the errors that are proved; bounds on log p(y) and on divergences of given data go on to 30
  digits where these spoil them;
- "float": doubles alone, whose allowance for rounding may be measured only;
- "sharp": the outer end by construction, of a ball or of 30 digits.
"""


def rigor_of(rigor: str, certified: bool | None = None, *, was: str = "sharp") -> str:
    """One of `RIGOR`, also from the spellings of earlier releases, each with a warning that names the new one.

    ``rigor="arb"`` means "sharp", and ``certified=True`` means ``was``.

    >>> rigor_of("sharp")
    'sharp'
    """
    if isinstance(rigor, str) and rigor == "arb":
        deprecated("rigor='arb'", "rigor='sharp'")
        rigor = "sharp"
    stated = choice("rigor", rigor, RIGOR)
    if certified is None:
        return stated
    replacement = was if flag("certified", certified) else "float"
    deprecated(f"certified={certified}", f"rigor={replacement!r}")
    return stated if stated == "sharp" or (stated == "float" and not certified) else replacement


def deprecated(spelling: str, replacement: str) -> None:
    """Warn of an old spelling, at the line of the library's caller that uses it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES:
        level, frame = level + 1, frame.f_back
    message = f"{spelling} is an old spelling, which the next release refuses: say {replacement}"
    warnings.warn(message, DeprecationWarning, stacklevel=level)


# The choice of a device: the host with NumPy, or a GPU with CuPy.

Device = Literal["cpu", "cuda", "auto"]


def array_module(device: Device = "cpu") -> Any:
    """``numpy`` for "cpu", ``cupy`` for "cuda", and for "auto" ``cupy`` if it works on this machine.

    Raises
    ------
    ValueError
        for "cuda" if CuPy or a GPU is missing or broken; the message says which.

    >>> array_module("cpu").__name__
    'numpy'
    """
    if choice("device", device, ("cpu", "cuda", "auto")) == "cpu":
        return np
    fault = cuda_fault()
    if not fault:
        import cupy

        return cupy
    if device == "auto":
        return np
    raise ValueError(f"device: expected a machine that runs CuPy for 'cuda', but {fault}; use device='cpu' or 'auto'")


def cuda_fault() -> str:
    """The reason why CuPy does not work here, as a clause; empty if it works."""
    try:
        import cupy
    except Exception as error:
        return f"CuPy cannot be imported ({_line(error)})"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "there is no CUDA device"
        product = cupy.ones((2, 2)) + cupy.eye(2)
        if float(cupy.linalg.cholesky(product).sum()) > 0.0:
            return ""
        return "the GPU computes a wrong Cholesky factor"
    except Exception as error:
        return f"the GPU fails ({_line(error)})"


def free_bytes(xp: Any) -> int:
    """Bytes that arrays of ``xp`` may still take on a GPU, those that CuPy holds in reserve included; 0 for NumPy.

    >>> free_bytes(np)
    0
    """
    if xp is np:
        return 0
    return int(xp.cuda.runtime.memGetInfo()[0] + xp.get_default_memory_pool().free_bytes())


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:120]}" if words else type(error).__name__


# Logarithms of positive parameters, which an optimiser varies.


def as_log_parameters(values: ArrayLike, names: tuple[str, ...]) -> Float:
    """``values`` as finite float64, one for each of ``names``."""
    logarithms = finite("values", values)
    if logarithms.shape != (len(names),):
        raise ValueError(
            f"values: expected log_parameters of shape ({len(names)},), one for each of {names}, got {logarithms.shape}"
        )
    return logarithms


def exponentials(logs: Float, names: tuple[str, ...]) -> list[float]:
    """exp of each; an error if one is 0 or infinite."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(logs)
    for name, log, value in zip(names, logs, values, strict=True):
        if not 0.0 < value < np.inf:
            raise ValueError(f"values: expected log {name} within the range of float64, got {log:.6g}")
    return values.tolist()
