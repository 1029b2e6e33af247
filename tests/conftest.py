"""What several tests share."""

import itertools
import sys

import pytest

import fitting.starts.pilot
from gpbounds.linalg import parallel


@pytest.fixture(scope="module")
def cupy():
    """CuPy, where it is installed and sees a device; the test is skipped otherwise."""
    module = pytest.importorskip("cupy", exc_type=ImportError)
    try:
        devices = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError:
        devices = 0
    if devices == 0:
        pytest.skip("no CUDA device")
    return module


@pytest.fixture(autouse=True)
def shared_however_small(request, monkeypatch):
    """Lanes share the small problems of tests marked ``lanes``, so that two numbers of lanes compare something."""
    if request.node.get_closest_marker("lanes"):
        monkeypatch.setattr(parallel, "QUIET", 1.0)
        monkeypatch.setattr(parallel, "BUSY", 1.0)


@pytest.fixture(autouse=True)
def failed_factors(request):
    """On the stand-in, a test in which a factorisation fails is marked ``failed_factor``."""
    before = len(getattr(sys.modules.get("cupy.linalg"), "failures", ()))
    yield
    after = len(getattr(sys.modules.get("cupy.linalg"), "failures", ()))
    assert after == before or request.node.get_closest_marker("failed_factor"), "mark it: .ci/run tries it twice"


@pytest.fixture
def short_pilots(monkeypatch):
    """Pilot fits of two iterations, for tests of what does not depend on where training starts."""
    monkeypatch.setattr(fitting.starts.pilot, "ROUNDS", ((2, 2),))


@pytest.fixture
def counts(cupy):
    """What the stand-in for CuPy counts, from 0 (tests/standin/README.md); for tests marked ``standin``."""
    cupy._impl.stats.clear()
    return cupy._impl.stats


def pytest_runtest_setup(item):
    if item.get_closest_marker("standin"):
        reason = "needs the stand-in for CuPy: PYTHONPATH=tests/standin"
        module = pytest.importorskip("cupy", exc_type=ImportError, reason=reason)
        if not module.__version__.endswith("+standin"):
            pytest.skip(reason)


class Interrupting:
    """A loss that counts its evaluations and raises at one of them, once."""

    def __init__(self, loss, at=None, error=KeyboardInterrupt):
        self.loss, self.at, self.error, self.calls = loss, at, error, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return self.loss(x)


@pytest.fixture
def interrupting():
    """``interrupting(loss, at, error)``: the loss that raises at evaluation ``at``; by default Ctrl-C."""
    return Interrupting


@pytest.fixture
def stopped(monkeypatch):
    """``stopped(owner, at, error)``: call number ``at`` of ``owner.minimised`` raises; by default Ctrl-C."""

    def patch(owner, at, error=KeyboardInterrupt):
        true, calls = owner.minimised, itertools.count(1)

        def minimised(*args, **kwargs):
            if next(calls) == at:
                raise error
            return true(*args, **kwargs)

        monkeypatch.setattr(owner, "minimised", minimised)

    return patch
