"""The interface of checks: each method asserts a statement about a claim, and records figures for the claims report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pkgutil import resolve_name
from statistics import median_low
from types import FunctionType
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from gpbounds.claims import find, ledger


def _column(values: Any) -> list[Any]:
    """The entries of a number, a list or an array; mpmath numbers keep their precision."""
    if isinstance(values, mpmath.mpf):
        return [values]
    return list(np.asarray(values, dtype=object).ravel())


def _pairs(left: Any, right: Any) -> list[tuple[Any, Any]]:
    lefts, rights = _column(left), _column(right)
    if len(lefts) == 1:
        lefts = lefts * len(rights)
    if len(rights) == 1:
        rights = rights * len(lefts)
    return list(zip(lefts, rights, strict=True))


@dataclass
class Record:
    """The figures of one claim."""

    cases: int = 0
    worst_slack: float = float("inf")  # least of bound - truth, in the claim's own units
    ratios: list[float] = field(default_factory=list)  # bound / truth for an upper bound, truth / bound for a lower one
    worst_error: float = 0.0  # relative
    counterexamples: list[str] = field(default_factory=list)
    frequencies: list[dict[str, float]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        finite = [r for r in self.ratios if np.isfinite(r)]
        return {
            "cases": self.cases,
            "worst_slack": None if np.isinf(self.worst_slack) else self.worst_slack,
            "tightness": {"best": min(finite), "median": median_low(finite), "worst": max(finite)} if finite else None,
            "worst_relative_error": self.worst_error,
            "counterexamples": self.counterexamples,
            "failure_frequencies": self.frequencies,
        }

    def add(self, other: Record) -> None:
        """Take over the figures of another part of the run."""
        self.cases += other.cases
        self.worst_slack = min(self.worst_slack, other.worst_slack)
        self.ratios += other.ratios
        self.worst_error = max(self.worst_error, other.worst_error)
        self.counterexamples += [why for why in other.counterexamples if why not in self.counterexamples]
        self.frequencies += other.frequencies


class Observer:
    """Asserts statements about claims and records the results."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def _record(self, claim: str) -> Record:
        find(claim)  # raises an error for a mistyped id
        return self.records.setdefault(claim, Record())

    def plain(self) -> dict[str, dict[str, Any]]:
        """The records as dictionaries, which a worker process can hand over."""
        return {claim: asdict(record) for claim, record in self.records.items()}

    def add(self, plain: dict[str, dict[str, Any]]) -> None:
        """Add the records of a worker process."""
        for claim, fields in plain.items():
            self._record(claim).add(Record(**fields))

    def upper(self, claim: str, truth: Any, bound: Any, *, tol: float = 0.0) -> None:
        """truth <= bound for each entry; ``tol`` is an absolute allowance for the rounding error of the truth."""
        record = self._record(claim)
        for t, b in _pairs(truth, bound):
            slack = b - t
            assert slack >= -tol, f"{claim}: {t} exceeds its upper bound {b} by {-slack}"
            record.cases += 1
            record.worst_slack = min(record.worst_slack, float(slack))
            if t > 0 and b < np.inf:
                record.ratios.append(float(b / t))

    def lower(self, claim: str, truth: Any, bound: Any, *, tol: float = 0.0) -> None:
        """truth >= bound for each entry."""
        record = self._record(claim)
        for t, b in _pairs(truth, bound):
            slack = t - b
            assert slack >= -tol, f"{claim}: {t} is below its lower bound {b} by {-slack}"
            record.cases += 1
            record.worst_slack = min(record.worst_slack, float(slack))
            if b > 0:
                record.ratios.append(float(t / b))

    def equal(self, claim: str, value: Any, truth: Any, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """|value - truth| <= rtol·|truth| + atol for each entry."""
        record = self._record(claim)
        for v, t in _pairs(value, truth):
            error = abs(v - t)
            assert error <= rtol * abs(t) + atol, f"{claim}: {v} differs from {t} by {error}"
            record.cases += 1
            if t != 0:
                record.worst_error = max(record.worst_error, float(error / abs(t)))

    def holds(self, claim: str, statement: Any, cases: int = 1) -> None:
        """A true statement, tried on ``cases`` instances."""
        assert bool(statement), f"{claim}: does not hold"
        self._record(claim).cases += int(cases)  # NumPy's integers are not JSON

    def fails(self, claim: str, printed: Any, why: str) -> None:
        """The printed statement is false at its counterexample; ``why`` states the truth."""
        assert not bool(printed), f"{claim}: the printed form holds at its counterexample ({why})"
        record = self._record(claim)
        record.cases += 1
        if why not in record.counterexamples:
            record.counterexamples.append(why)

    def frequency(self, claim: str, failures: int, draws: int, delta: float) -> None:
        """``failures`` in ``draws`` is compatible with probability <= delta (exact binomial test, level 1e-6)."""
        surprise = binom.sf(failures - 1, draws, delta) if failures else 1.0
        assert surprise > 1e-6, f"{claim}: {failures} failures in {draws} draws, promised at most {delta}"
        record = self._record(claim)
        record.cases += int(draws)
        record.frequencies.append({"failures": int(failures), "draws": int(draws), "delta": float(delta)})


def note_call(path: str, note: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Call ``note`` at the first call of what a claim names as its function, until ``patch`` is undone.

    A call of a class is one of any of its methods but those that compare and show; that of a method may be one of a
    subclass's own.
    Other names of a module's function stay true, as it is its code that changes; the first call takes that back.
    """

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def first(*args: Any, **kwargs: Any) -> Any:
            patch.undo()
            note()
            return original(*args, **kwargs)

        return first

    where, _, name = path.rpartition(".")
    named, owner = resolve_name(path), resolve_name(where)
    if isinstance(named, type):
        own = [each for each, value in vars(named).items() if isinstance(value, FunctionType)]
        methods = [(named, each) for each in own if each not in ("__repr__", "__eq__", "__hash__")]
    elif isinstance(owner, type):
        methods = [(each, name) for each in family(owner) if each is owner or name in vars(each)]
    else:
        function, code = inspect.unwrap(named), _calls_the_text.__code__
        constants = tuple(noted(function) if each == THE_TEXT else each for each in code.co_consts)
        patch.setattr(function, "__code__", code.replace(co_consts=constants))
        return
    for each, method in methods:
        value = inspect.getattr_static(each, method)
        bound = isinstance(value, classmethod)
        patch.setattr(each, method, classmethod(noted(value.__func__)) if bound else noted(value))


def uncalled(called: dict[str, set[str]], files: dict[str, set[str]]) -> list[str]:
    """A line for each claim whose function no check under its mark calls in the file that the ledger names.

    ``called`` and ``files`` have by claim the files with a check that calls the function, and those with any check.
    """
    return [
        f"{claim.id}: no check under its mark in {claim.check} calls {claim.function}"
        for claim in ledger()
        if claim.function and claim.check in files.get(claim.id, ()) and claim.check not in called.get(claim.id, ())
    ]


def family(root: type) -> Iterator[type]:
    """A class and all that inherit from it."""
    yield root
    for each in root.__subclasses__():
        yield from family(each)


THE_TEXT = "the text"


def _calls_the_text(*args: Any, **kwargs: Any) -> Any:
    called: Any = "the text"  # a constant of the code, in whose place `note_call` puts a function
    return called(*args, **kwargs)
