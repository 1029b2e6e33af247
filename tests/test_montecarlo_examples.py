"""The pictures of paper 004: what the numbers behind them must satisfy, and that the files come out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def example():
    loaded = []

    def load(name):
        path = Path(__file__).parents[1] / "examples" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]


@pytest.mark.slow
def test_drawn_biases_are_the_exact_ones_within_their_noise(example):
    script = example("bmc_bias")
    y = script.counts(12, 1.0, 0)
    script.SIZES = np.array([1, 3, 10])
    biases = script.biases(y, 0.5, 1.0, 5_000, 0)
    assert (np.diff(biases.objective) < 0.0).all()
    assert (np.diff(biases.exact["mean"]) < 0.0).all()
    for k, L in enumerate(script.SIZES):
        fine = int(np.argmin(np.abs(script.FINE - L)))
        for name in ("mean", "variance", "curvature"):
            # the norm of bias plus noise is off by 5 times the noise's norm at most
            assert abs(biases.drawn[name][k] - biases.exact[name][fine]) < 5.0 * biases.noise[name][k]
        for name in ("product mean", "product variance"):
            assert biases.drawn[name][k] < 3.0 * biases.noise[name][k]


def test_chernoff_is_the_smallest_and_printed_the_largest(example):
    script = example("sample_sizes")
    m = np.linspace(-5.0, 3.0, 50)
    printed, improved, chernoff = (script.needed(rule, m, 10, 1000) for rule in script.RULES)
    assert (chernoff <= improved).all()
    assert (improved <= printed).all()


@pytest.mark.broad
@pytest.mark.parametrize(
    ("name", "options"), [("bmc_bias", ["--N", "6", "--draws", "200"]), ("sample_sizes", ["--quick"])]
)
def test_a_picture_comes_out(example, name, options, tmp_path, capsys):
    example(name).main([*options, "--out", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "picture.png") in capsys.readouterr().out
