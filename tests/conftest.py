"""What several tests share."""

import itertools

import pytest


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


@pytest.fixture
def stopped(monkeypatch):
    """``stopped(owner, at, error)``: call number ``at`` of ``owner.minimised`` raises; Ctrl-C unless told otherwise."""

    def patch(owner, at, error=KeyboardInterrupt):
        true, calls = owner.minimised, itertools.count(1)

        def minimised(*args, **kwargs):
            if next(calls) == at:
                raise error
            return true(*args, **kwargs)

        monkeypatch.setattr(owner, "minimised", minimised)

    return patch
