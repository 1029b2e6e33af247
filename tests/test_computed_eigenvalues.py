"""Eigenvalues as a decomposition returns them: rounding below 0 counts as 0 at every public door that takes them."""

import importlib
import re

import numpy as np
import pytest

from gpbounds.arrays import EPS
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.draws import matching_ridge
from gpbounds.kdpp.streamed_residual import streamed_residual, tilted_traces
from gpbounds.kernels import SquaredExponential
from tests.test_array_gate import DOORS, _bits

POINTS = np.linspace(0.0, 1.0, 50)[:, None]
COMPUTED, VECTORS = np.linalg.eigh(SquaredExponential(1.0, 1.0)(POINTS, POINTS))
"""Doubles that have the rounding of `eigh` among them: the least is negative."""

INTERNAL = {  # functions of the package that its own rooms call with computed eigenvalues
    "matching_ridge": (matching_ridge, {"M": 2.0}),
    "streamed_residual": (streamed_residual, {"left": 0.1, "M": 2, "noise": 0.5}),
    "tilted_traces": (tilted_traces, {"left": 0.1, "M": 2, "noise": 0.5}),
}


def _takers():
    """(name, function, its parameter of eigenvalues, its other arguments) of every function with such a parameter."""
    for name, tried in DOORS.items():
        for parameter in set(tried[0]) & {"eigenvalues", "eigenvalues_lower"}:
            module, _, function = name.rpartition(".")
            others = {key: value for key, value in tried[0].items() if key not in (parameter, "weights")}
            if "eigenvectors" in others:
                others["eigenvectors"] = VECTORS
            yield name, getattr(importlib.import_module(module), function), parameter, others
    for name, (function, others) in INTERNAL.items():
        yield name, function, "eigenvalues", others


TAKERS = {name: rest for name, *rest in _takers()}


def test_the_table_has_all_of_them():
    assert COMPUTED.min() < 0.0
    assert len(TAKERS) >= 17


@pytest.mark.parametrize("name", TAKERS)
def test_what_rounding_has_left_of_zeros_counts_as_zero(name):
    function, parameter, others = TAKERS[name]
    clipped = np.maximum(COMPUTED, 0.0)
    given = COMPUTED.copy()
    result = _bits(function(**others, **{parameter: given}))
    assert result == _bits(function(**others, **{parameter: clipped}))
    assert re.search("[0-9]", repr(result))
    assert given.tobytes() == COMPUTED.tobytes()  # the caller's array is as it was


@pytest.mark.parametrize("name", TAKERS)
def test_what_is_more_than_rounding_is_refused_with_the_remedy(name):
    function, parameter, others = TAKERS[name]
    low = COMPUTED.copy()
    low[7] = -1.01 * COMPUTED.size * EPS * COMPUTED.max()
    with pytest.raises(NotPositiveDefinite, match=rf"^{parameter}: expected numbers >= 0.*index \(7,\).*clip at 0"):
        function(**others, **{parameter: low})
    low[7] /= 1.02
    function(**others, **{parameter: low})
