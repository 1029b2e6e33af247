"""Arrays of other libraries: each public function and each method of an estimator is called with them.

    python verification/array_libraries.py --store

calls what `tests/test_array_gate.py` has right arguments for, with arrays of NumPy and of each library that is
installed here.  The numbers must be the same, and arrays come back in the caller's kind.  ``--store`` writes the counts
to ``verification/array_libraries.json``, beside those of libraries that are not installed; `table` makes of them the
table in ``docs/how_to/arrays.md``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import history
import numpy as np

HERE = Path(__file__).parent
STORED = HERE / "array_libraries.json"
KINDS = ("arrays of the caller", "numbers and records", "rows in partitions", "faults")
"""What a call does: arrays come back, or no array does; or rows are summed by partitions, in another order."""
BY_PARTITIONS = {
    *("gpbounds.renyi.evidence", "gpbounds.renyi.gap", "gpbounds.renyi.gap_from_trace", "gpbounds.rows.source"),
    *("fitting.audit", "fitting.certify", "fitting.plan"),
}
"""Functions that read rows of Dask by partitions, as estimators do."""

WITHOUT_ROWS = {"log_evidence_bounds", "kl_bound_of"}
"""Methods whose X and y are the rows of a model that holds none."""


@dataclass(frozen=True)
class Library:
    """A library of arrays.

    Attributes
    ----------
    name, package : str
        For readers, and for pip.
    make : function
        An array of NumPy as one of this library.
    """

    name: str
    package: str
    make: Callable[[Any], Any]

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package.replace("-", "_")) is not None

    def read(self, result: Any) -> Any:
        """``result`` with NumPy's arrays, in place of those of this library; one of NumPy fails."""
        if type(result) in (tuple, list):
            return type(result)(self.read(part) for part in result)
        assert not (isinstance(result, np.ndarray) and result.ndim), f"{self.name}: got an array of NumPy"
        return np.asarray(result) if isinstance(result, type(self.make(np.ones(1)))) else result


def strict(array: Any) -> Any:
    """An array of the strict stand-in for the array API standard."""
    import array_api_strict

    return array_api_strict.asarray(array)


def _tensor(array: Any) -> Any:
    import torch

    return torch.asarray(array)


def _of_jax(array: Any) -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(array)


def _chunked(array: Any) -> Any:
    import dask.array

    return dask.array.from_array(array, chunks=2)


LIBRARIES = [
    Library("array_api_strict", "array-api-strict", strict),
    Library("PyTorch", "torch", _tensor),
    Library("JAX", "jax", _of_jax),
    Library("Dask", "dask", _chunked),
]


def has_arrays(result: Any) -> bool:
    """Whether a result is an array or holds some, in tuples."""
    if type(result) in (tuple, list):
        return any(map(has_arrays, result))
    return isinstance(result, np.ndarray) and result.ndim > 0


Call = Callable[[Callable[[Any], Any]], Any]


def calls() -> Iterator[tuple[str, Call]]:
    """Each function and method by name, as what calls it with arrays of NumPy that a maker has changed."""
    import fitting
    from tests import test_array_gate as gate

    def of_function(name: str, given: dict[str, Any]) -> Call:
        arrays = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
        return lambda make: gate._called(name, given | {key: make(value) for key, value in arrays.items()})

    def of_method(name: str, method: str, given: dict[str, Any], more: dict[str, Any]) -> Call:
        def call(make: Callable[[Any], Any]) -> Any:
            changed = {key: make(value) for key, value in given.items()}
            if method in ("fit", "partial_fit"):
                model = gate._made(name, "adam" if method == "partial_fit" else None)
                return getattr(model, method)(**changed, **more).predict(make(gate.X))
            return getattr(gate._fitted(name), method)(**changed, **more)

        return call

    for name, doors in gate.DOORS.items():
        for given in doors:
            if any(isinstance(value, np.ndarray) for value in given.values()):
                yield name, of_function(name, given)
    for name in gate.ESTIMATORS:
        for method, given, labels in gate._methods(name):
            if method not in WITHOUT_ROWS:
                yield f"fitting.{name}.{method}", of_method(name, method, given, labels)
        if hasattr(getattr(fitting, name), "predict_interval"):
            yield f"fitting.{name}.predict", of_method(name, "predict", {"X": gate.X}, {"return_std": True})


def outcome(library: Library, name: str, call: Call) -> str:
    """One of `KINDS`, a fault with its sentence."""
    from tests.test_array_gate import _bits

    expected = call(np.asarray)
    try:
        result = library.read(call(library.make))
    except Exception as error:
        refused = library.name == "Dask" and re.search("rows in memory|read by partitions", str(error))
        return "rows in partitions" if refused else f"faults: {name}: {type(error).__name__}: {error}"
    if _bits(result) != _bits(expected):
        rows = library.name == "Dask" and (name in BY_PARTITIONS or name.endswith(".fit"))
        return "rows in partitions" if rows else f"faults: {name}: other numbers"
    return "arrays of the caller" if has_arrays(expected) else "numbers and records"


def outcomes(library: Library) -> dict[str, str]:
    """The outcome of each function and method: of several calls, arrays before numbers, and faults before all."""
    by_name: dict[str, str] = {}
    order = ("numbers and records", "arrays of the caller", "rows in partitions")
    for name, call in calls():
        new, old = outcome(library, name, call), by_name.get(name, order[0])
        by_name[name] = max(old, new, key=lambda each: order.index(each) if each in order else len(order))
    return by_name


def measured(library: Library) -> dict[str, Any]:
    """The record of a library: its release, the commit, and names of functions and methods by outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_name = outcomes(library)
    names = {kind: sorted(name for name, each in by_name.items() if each.startswith(kind)) for kind in KINDS}
    names["faults"] = sorted(each for each in by_name.values() if each.startswith("faults"))
    return {"release": version(library.package), "commit": history.commit(), **names}


def stored() -> dict[str, Any]:
    """The records by library."""
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def table(records: dict[str, Any]) -> str:
    """The table of the documentation."""
    head = ("arrays of", "release", "arrays come back", "numbers or records", "read by partitions", "faults")
    rows = [
        (library.name, record["release"], *(str(len(record[kind])) for kind in KINDS))
        for library in LIBRARIES
        if (record := records.get(library.name))
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---",) * len(head), *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    args = parser.parse_args()
    sys.path[:0] = [str(HERE.parent)]
    records = stored()
    for library in LIBRARIES:
        if not library.is_installed:
            print(f"{library.name}: not installed", file=sys.stderr)
            continue
        records[library.name] = measured(library)
        if args.store:
            STORED.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(table(records))
    faults = [fault for record in records.values() for fault in record["faults"]]
    print("\n".join(faults), file=sys.stderr)
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
