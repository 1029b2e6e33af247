"""The records of `observer.Observer`: their JSON, their sums, their figures."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from observer import Observer, Record, note_call, uncalled

from gpbounds import claims, losses, spectra
from gpbounds.inputs import Gaussian
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank import kl
from gpbounds.pacbayes import Charge

law = spectra.spectrum(SquaredExponential(), inputs=Gaussian())


def band(loss: losses.Loss) -> Any:
    return loss.expectation(np.zeros(2), np.zeros(2), np.ones(2))


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


@pytest.mark.parametrize(
    ("path", "call", "other"),
    [
        ("gpbounds.lowrank.kl", lambda: kl([[1.0]], [[0.5]], noise=1.0), lambda: band(losses.Band(1.0))),
        ("gpbounds.pacbayes.Charge", lambda: Charge("ε", 5), lambda: band(losses.Band(1.0))),
        ("gpbounds.losses.Band.expectation", lambda: band(losses.Band(1.0)), lambda: band(losses.Squared(1.0))),
        ("gpbounds.spectra.Spectrum.roundings", lambda: law.roundings(np.arange(3.0), 3), lambda: law.tail(3)),
    ],
)
def test_a_call_is_noted_once_and_leaves_no_trace(path: str, call: Any, other: Any) -> None:
    """Calls through names that were imported before, of inherited methods, and of those of subclasses."""
    noted: list[str] = []
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as of_another_claim:
        note_call(path, lambda: noted.append(path), patch)
        note_call(path, lambda: noted.append("another"), of_another_claim)
        other()
        assert not noted
        values = [call(), call()]
    assert sorted(noted) == ["another", path]
    assert all(np.all(first == second) for first, second in pairwise([*values, call()]))
    with pytest.MonkeyPatch.context() as patch:
        note_call(path, lambda: noted.append(path), patch)
    call()
    assert len(noted) == 2


def test_a_claim_needs_a_call_in_the_file_that_it_names() -> None:
    claim = claims.find("R-cx")
    files = {claim.id: {claim.check, "verification/test_others.py"}, "R-def": {"verification/test_others.py"}}
    line = f"R-cx: no check under its mark in {claim.check} calls {claim.function}"
    assert uncalled({}, files) == uncalled({claim.id: {"verification/test_others.py"}}, files) == [line]
    assert not uncalled({claim.id: {claim.check}}, files)
    assert not uncalled({}, {claim.id: set()})
