"""What several tests share."""

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
