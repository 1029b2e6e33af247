"""Colours and line styles of the bounds for the best of several draws, the same in every figure."""

from __future__ import annotations

from gpbounds import plotting

BEST_OF_SEVERAL = {
    "a priori, simulated": (plotting.BLUE, "-"),
    "data-aware": (plotting.VERMILLION, "-"),
    "given y": (plotting.ORANGE, "--"),
}
BY_ORDER = {"a priori, simulated": "-", "data-aware": "--", "given y": ":"}
"""Line styles where colours tell the orders apart."""
