"""Odd arguments: a right answer, or one sentence of a documented error that names the argument."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from robustness import right_calls
from robustness.odd_arguments import BAD, OTHER, PACKAGES, SAME, Call, Odd, fault

SCRIPT = Path(__file__).with_name("odd_calls.py")
MEMORY = 2**32
"""Bytes of address space that a call may take."""
COSTLY = (
    *("inducing_points", "rate", "enough", "latent_enough", "compare", "kdpp.select", "bias", "expected_objective"),
    *("expected_gradients", "sample_size", "hilbert_rank", "hilbert_report", "hilbert_report_of", "mercer_rank"),
)
"""Functions whose calls take milliseconds: left to the run of all odd values."""
ROOMS = sorted({".".join(call.name.split(".")[:2]) for package in PACKAGES for call in right_calls.calls(package)})
FOREIGN = ["gpbounds.renyi.from_gpflow", "gpbounds.renyi.from_gpjax", "gpbounds.renyi.from_gpytorch"]
"""Readers of objects of libraries that need not be installed."""


@pytest.fixture
def limited():
    """A call that asks for too much memory fails here, and takes none from other processes."""
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_every_public_function_is_called():
    assert right_calls.untried() == FOREIGN


def test_the_right_arguments_are_right():
    for call in right_calls.calls():
        if not call.name.endswith(COSTLY):
            call.function(**call.arguments)


@pytest.mark.parametrize(("package", "one_of", "least"), [("gpbounds", 25, 1500), ("fitting", 200, 70)])
def test_a_share_of_all_odd_values(package, one_of, least, limited, tmp_path, monkeypatch):
    """Of those with CRC-32 % ``one_of`` == 0, so that a new function moves no other in or out."""
    monkeypatch.chdir(tmp_path)
    wrong, tried = [], 0
    for call in right_calls.calls(package):
        for name, odd in call.odd() if not call.name.endswith(COSTLY) else ():
            if zlib.crc32(f"{call.name} {name} {odd.name}".encode()) % one_of == 0:
                tried += 1
                if problem := fault(call, name, odd, right_calls.allowed):
                    wrong.append(f"{call.name} | {name} | {odd.name} | {problem}")
    assert tried > least
    assert [each for each in wrong if not right_calls.known(each)] == []


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_all_odd_values(room):
    run = subprocess.run(
        [sys.executable, str(SCRIPT), room.partition(".")[0], "--only", room],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


# The harness finds each kind of fault.


def _changes(X):
    X[:] = 0.0


def _warns(X):
    return np.array([1e308]) * 1e308


def _leaks(X):
    return X + "a"


def _slow(X):
    while True:
        pass


def _fails(text, kind=ValueError):
    def function(X):
        raise kind(text)

    return function


@pytest.mark.parametrize(
    ("function", "asks", "beginning"),
    [
        (lambda X: X, BAD, "accepted"),
        (lambda X: 2.0 * X, SAME, "another answer"),
        (lambda X: X * np.nan, OTHER, "nan"),
        (_changes, OTHER, "changed: X"),
        (_warns, OTHER, "warned: RuntimeWarning"),
        (_leaks, BAD, "leaks"),
        (_fails("X: no"), BAD, "leaks ValueError"),  # raised outside of the packages
        (_slow, OTHER, "hangs"),
    ],
)
def test_a_fault_is_found(function, asks, beginning, monkeypatch):
    monkeypatch.setattr("robustness.odd_arguments.LIMIT", 1)
    right = np.array([1.0, 2.0])
    calls = iter([function, lambda X: X])  # the answer to the right arguments is another one
    call = Call("f", (lambda X: next(calls)(X)) if asks == SAME else function, {"X": right})
    assert fault(call, "X", Odd("given", asks, right.copy)).startswith(beginning)


def test_a_sentence_of_the_packages_that_names_the_argument_is_no_fault():
    from gpbounds.validation import positive

    call = Call("f", lambda noise: positive("noise", noise), {"noise": 1.0})
    assert fault(call, "noise", Odd("negative", BAD, lambda: -1.0)) == ""
    other = Call("f", lambda sigma: positive("noise", sigma), {"sigma": 1.0})
    assert fault(other, "sigma", Odd("negative", BAD, lambda: -1.0)).startswith("unnamed")


def test_warnings_of_the_caller_are_none_of_the_call():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fault(Call("f", lambda X: X, {"X": 1.0}), "X", Odd("other", OTHER, lambda: 2.0)) == ""
