"""The example of exact, Mercer and Fourier GP: its numbers are in the order theory says, its pictures come out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from gpbounds import SquaredExponential


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[1] / "examples" / "mercer_curves.py"
    spec = importlib.util.spec_from_file_location("mercer_curves", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mercer_curves"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mercer_curves"]


def test_certificates_hold_and_nothing_beats_the_optimum(example):
    h = example.Hyperparameters(SquaredExponential(2.0, 0.3), 1e-2, 0.0)
    x = np.random.default_rng(0).standard_normal(25)
    divergences = example.divergences(h, x, 40, 3, 0)
    assert (divergences.mercer <= divergences.certified).all()
    assert (divergences.certified <= divergences.halved).all()
    reached = np.minimum(divergences.ranks, 25)
    assert (divergences.mercer >= divergences.best[reached] - 1e-9).all()
    assert (divergences.hilbert <= divergences.bounded).all()
    assert (divergences.hilbert >= divergences.best[reached] - 1e-9).all()
    assert (divergences.fourier >= divergences.best[np.minimum(divergences.fourier_ranks, 25)] - 1e-9).all()


def test_many_eigenfunctions_predict_like_the_exact_model(example):
    x = np.random.default_rng(1).standard_normal(25)
    data = example.Problem(x, example.curve(x), np.linspace(-3, 3, 50), 1, 1e-6)
    h = example.Hyperparameters(SquaredExponential(2.0, 0.5), 1e-2, 0.0)
    true, near, far = (
        example.predict("", model, h, data) for model in (example.exact, example.mercer(60), example.mercer(6))
    )
    assert np.abs(near.mean - true.mean).max() < 1e-4
    assert np.abs(near.std - true.std).max() < 1e-4
    assert np.abs(far.mean - true.mean).max() > 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_the_pictures_come_out(example, tmp_path, capsys):
    out = tmp_path / "curves.png"
    example.main(["--starts", "1", "--draws", "2", "--train", "exact", "--out", str(out)])
    for ending in ("", "_ranks", "_kl"):
        assert (tmp_path / f"curves{ending}.png").stat().st_size > 20_000
    assert "Mercer GP, 34 eigenfunctions\nKL = " in capsys.readouterr().out
