"""The records of `observer.Observer`: their JSON, their sums, their figures."""

from __future__ import annotations

import json

import numpy as np
from observer import Observer, Record


def test_tightness_of_ratios_at_the_end_of_the_doubles() -> None:
    """Bounds that are loose by 1e308 are reported, too: their mean would overflow."""
    record = Record(ratios=[1.7e308, 1.0, 1.6e308, float("inf")])
    assert record.to_dict()["tightness"] == {"best": 1.0, "median": 1.6e308, "worst": 1.7e308}


def test_records_of_numpy_numbers_are_json() -> None:
    observer = Observer()
    observer.holds("R-thm1", np.True_, cases=np.int64(3))
    observer.frequency("R-thm1", np.int64(0), np.int64(10), np.float64(0.5))
    observer.upper("R-thm1", np.float32(1.0), np.float64(2.0))
    record = json.loads(json.dumps(observer.records["R-thm1"].to_dict()))
    assert record["cases"] == 14
    assert record["failure_frequencies"] == [{"failures": 0, "draws": 10, "delta": 0.5}]


def test_records_of_two_processes_add_up() -> None:
    def first(observer: Observer) -> None:
        observer.upper("R-thm1", [1.0, 2.0], [1.5, 8.0])
        observer.fails("R-thm1", False, "too small")

    def second(observer: Observer) -> None:
        observer.upper("R-thm1", 1.0, 1.25)
        observer.equal("R-thm1", 1.0 + 1e-9, 1.0, rtol=1e-8)
        observer.fails("R-thm1", False, "too small")
        observer.frequency("D-23", 1, 40, 0.05)

    whole, joined = Observer(), Observer()
    first(whole)
    second(whole)
    for part in (first, second):
        worker = Observer()
        part(worker)
        joined.add(json.loads(json.dumps(worker.plain())))
    assert joined.plain() == whole.plain()
    assert joined.records["R-thm1"].to_dict()["tightness"] == {"best": 1.25, "median": 1.5, "worst": 4.0}
