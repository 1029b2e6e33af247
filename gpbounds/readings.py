"""Numbers of a computation that the host needs: those on a GPU are copied together, when the first of them is needed.

A copy waits until the device has done all work before it, which costs as much time as several launches.  A pass over
the data therefore hands its sums and its tests to `Readings`, and goes on without their values.  On a CPU values are
known at once, and tests are made at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, is_cupy, namespace, require_finite_rows


class Reading:
    """An array of numbers which the host may not know yet."""

    def __init__(self, owner: Readings, known: Float | None) -> None:
        self._owner, self._known = owner, known

    @property
    def numbers(self) -> Float:
        """The array in host memory."""
        if self._known is None:
            self._owner.settle()
        assert self._known is not None
        return self._known

    def __float__(self) -> float:
        return float(self.numbers)


class Unread:
    """Σ_i f_i(a_i) with linear functions f_i of arrays a_i on a GPU, plus an array in host memory."""

    def __init__(self, terms: list[tuple[Array, Callable[[Float], Float]]], known: Float | float = 0.0) -> None:
        self._terms, self._known = terms, known

    def __add__(self, other: Unread | Float) -> Unread:
        if isinstance(other, Unread):
            return Unread([*self._terms, *other._terms], self._known + other._known)
        return Unread(self._terms, self._known + other)

    __radd__ = __add__
    __array_ufunc__ = None  # so that NumPy leaves the sum to this class

    def __neg__(self) -> Unread:
        return Unread([(-array, function) for array, function in self._terms], -self._known)

    def taken(self, readings: Readings) -> Callable[[], Float]:
        """A function that returns the sum, from numbers that it takes from ``readings``."""
        terms = [(readings.take(array), function) for array, function in self._terms]

        def total() -> Float:
            return np.asarray(sum((function(reading.numbers) for reading, function in terms), self._known))

        return total


class Readings:
    """Arrays whose values are needed later, and tests of these values.

    >>> readings = Readings()
    >>> total = readings.take(np.array([1.0, 2.0]).sum())
    >>> float(total)
    3.0
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Array, Reading]] = []
        self._tests: list[Callable[[], None]] = []

    def take(self, array: Any) -> Reading:
        """``array``, to be read later if it is on a GPU; numbers are real, and come back as doubles."""
        if not is_cupy(array):
            return Reading(self, np.asarray(array))
        reading = Reading(self, None)
        self._waiting.append((array, reading))
        return reading

    def test(self, test: Callable[[], None]) -> None:
        """Call ``test``, which may raise an error, as soon as all readings taken before are known."""
        self._tests.append(test)
        if not self._waiting:
            self.settle()

    def require_finite(self, name: str, array: Array) -> None:
        """Raise `NonFinite` for NaN or infinity in ``array``, with the row numbers."""
        if not is_cupy(array):
            require_finite_rows(name, array)
            return
        finite = self.take(namespace(array).isfinite(array).all())

        def test() -> None:
            if not float(finite):
                require_finite_rows(name, array)

        self.test(test)

    def settle(self) -> None:
        """Copy what has not been read, with one copy, and make the tests in their order."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            xp = namespace(waiting[0][0])
            numbers = xp.concatenate([array.reshape(-1).astype(np.float64, copy=False) for array, _ in waiting]).get()
            start = 0
            for array, reading in waiting:
                reading._known = numbers[start : start + array.size].reshape(array.shape)
                start += array.size
        tests, self._tests = self._tests, []
        for test in tests:
            test()


def taken(value: Float | Unread, readings: Readings) -> Callable[[], Float]:
    """A function that returns ``value`` in host memory, from numbers that it takes from ``readings``.

    >>> taken(np.ones(2), Readings())()
    array([1., 1.])
    """
    return value.taken(readings) if isinstance(value, Unread) else lambda: value


def read(value: Float | Unread) -> Float:
    """``value`` in host memory."""
    return taken(value, Readings())()
