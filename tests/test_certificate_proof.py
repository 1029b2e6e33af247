"""`Certificate.check(rigorous=True)`: what is proved, what a forger cannot pass, what is refused in a sentence."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, ClassVar

import numpy as np
import pytest

from gpbounds import Matern, SquaredExponential
from gpbounds.losses import Band, Exponential, Relative, Squared
from gpbounds.losses.base import Loss
from gpbounds.pacbayes import Certificate, DeclaredMean, Exact, Free, HyperGrid, Scaling, Sparse, Whitened
from gpbounds.pacbayes.certificate import rows, statement
from gpbounds.pacbayes.certificate.proof import prove
from gpbounds.rows import Source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart

GRID = HyperGrid.shared(-3.0, 3.0, 60)
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(40)
Z = np.linspace(-2.0, 2.0, 6)[:, None]
AMPLITUDES = np.array([0.4, -0.3, 0.9, 0.2, -0.8, 0.1])
SPREAD = 0.04 * np.eye(6) + 0.01
POSTERIORS = {
    "exact": Exact(0.3),
    "vfe": Sparse(Z, 0.3, power=0.0),
    "fitc": Sparse(Z, 0.3, power=1.0, jitter=1e-6),
    "free": Free(Z, AMPLITUDES, SPREAD),
    "whitened": Whitened(Z, AMPLITUDES, np.linalg.cholesky(SPREAD)),
}
LOSSES = {
    "exact": Band(0.6),
    "vfe": Squared(1.0),
    "fitc": Exponential(0.8),
    "free": Relative(2.0),
    "whitened": Band(1.0),
}
each = pytest.mark.parametrize("form", POSTERIORS)


def issue(form: str = "vfe", **changes: Any) -> Certificate:
    theta = GRID.round([1.3, 0.7]).theta
    arguments = {"grid": GRID, "loss": LOSSES[form], "delta": 0.05, **changes}
    return Certificate.issue(X, Y, POSTERIORS[form], SquaredExponential(**theta), **arguments)


@each
def test_an_honest_certificate_is_proved_and_its_bound_holds(form: str) -> None:
    certificate = issue(form, outputs=Scaling("fixed in advance", 0.1, 1.2))
    report = certificate.check(X, Y, rigorous=True)
    assert report.confirmed, str(report)
    proof = report.proved
    assert proof is not None
    assert proof.kl_below <= proof.kl <= certificate.kl
    assert proof.risk_below <= proof.risk <= certificate.risk
    assert proof.bound <= certificate.bound
    assert proof.moved == proof.bound - certificate.bound
    assert proof.bound == statement.risk_bound(proof.risk, proof.kl, certificate.count, 40, 0.05)
    assert proof.kl - proof.kl_below < 1e-11
    assert proof.risk - proof.risk_below < 1e-12
    assert json.loads(json.dumps(report.to_dict()))["proved"]["bound"] == proof.bound
    ordinary = certificate.check(X, Y)
    assert ordinary.proved is None
    assert "proved" not in ordinary.to_dict()
    assert report.lines[: len(ordinary.lines)] == ordinary.lines
    assert [line.name for line in report.lines[len(ordinary.lines) :]] == ["kl proof", "risk proof", "proof"]


@each
def test_forged_numbers_do_not_pass(form: str) -> None:
    certificate = issue(form)
    proof = prove(certificate, rows.raw(X, Y))
    for name, lines in (
        ({"kl": math.nextafter(proof.kl_below, 0.0)}, {"kl proof"}),
        ({"risk": math.nextafter(proof.risk_below, 0.0)}, {"risk proof"}),
        ({"bound": math.nextafter(proof.bound, 0.0)}, {"proof", "bound"}),
    ):
        report = dataclasses.replace(certificate, **name).sealed().check(X, Y, rigorous=True)
        assert not report.confirmed
        assert lines <= set(report.failed)
    least = dataclasses.replace(certificate, bound=proof.bound).sealed().check(X, Y, rigorous=True)
    assert least.line("proof").state == "confirmed"  # the stated bound holds, however little was allowed for rounding
    other = dataclasses.replace(certificate, posterior=Exact(0.01), kl=50.0).sealed()
    assert not other.check(X, Y, rigorous=True).confirmed


def test_other_data_are_not_proved() -> None:
    report = issue().check(X, Y + 1e-9, rigorous=True)
    assert report.failed == ("data",)
    assert report.line("proof").state == "skipped"
    assert report.proved is None


@pytest.mark.parametrize("form", ["vfe", "free"])
def test_rows_in_partitions_are_proved_as_arrays_are(form: str) -> None:
    certificate = issue(form)
    parts = rows.Partitions(
        Source.of(Local([ArrayPart(X, Y, i, rows) for i, rows in enumerate((slice(13), slice(13, 40)))]), single=True)
    )
    assert certificate.check(parts).confirmed
    whole, split = (prove(certificate, data) for data in (rows.raw(X, Y), parts))
    assert whole.kl == pytest.approx(split.kl, rel=1e-14)
    assert whole.risk == pytest.approx(split.risk, rel=1e-13)
    exact = dataclasses.replace(certificate, posterior=Exact(0.3))
    with pytest.raises(ValueError, match="needs all rows in memory"):
        prove(exact, parts)


def refused(certificate: Certificate) -> str:
    """The sentence of a refusal."""
    report = certificate.sealed().check(X, Y, rigorous=True)
    assert "proof" in report.failed
    assert report.proved is None
    text = report.line("proof").text
    assert text.startswith("R_S and KL cannot be proved: ")
    return text


@dataclasses.dataclass(frozen=True)
class Halved(Band):
    """A loss that is not one of gpbounds.losses."""

    name: ClassVar[str] = "halved"


def test_what_cannot_be_proved_is_refused_in_one_sentence() -> None:
    certificate = issue()
    assert isinstance(Halved(0.5), Loss)
    assert "loss: expected one whose mean is proved" in refused(dataclasses.replace(certificate, loss=Halved(0.5)))
    twice = Sparse(np.concatenate([Z, Z]), 0.3, 0.0, 0.0)
    assert "Kuu + jitter·I: expected" in refused(dataclasses.replace(certificate, posterior=twice))
    tiny = Sparse(Z, 1e-120, 0.0, 0.0)
    assert "noise: expected numbers between 1e-100 and 1e+100" in refused(
        dataclasses.replace(certificate, posterior=tiny)
    )
    wide = dataclasses.replace(certificate, kernel=SquaredExponential(1e-120))
    assert "kernel: expected a variance between" in refused(wide)
    near = Sparse(np.linspace(0.0, 1e-6, 5)[:, None], 0.3, 1.0, 0.0)
    assert "expected a matrix that can be proved positive definite" in refused(
        dataclasses.replace(certificate, posterior=near)
    )


def test_a_kernel_without_thirty_digits_is_proved_to_fewer() -> None:
    """Its entries are known to 1e-15: the proved interval is wider, and still holds the certificate's numbers."""
    kernel = Matern(22.5, **GRID.round([1.0, 1.0]).theta)
    certificate = Certificate.issue(X, Y, Exact(0.3), kernel, grid=GRID, loss=Band(0.6), delta=0.05)
    proof = prove(certificate, rows.raw(X, Y))
    assert 1e-13 < proof.kl - proof.kl_below < 1e-8
    assert proof.kl_below <= certificate.kl
    assert proof.risk - proof.risk_below < 1e-9


def test_the_mean_of_a_prior_is_subtracted_in_a_proof() -> None:
    mean = DeclaredMean("fixed in advance", 0.3, (0.2,))
    certificate = issue("fitc", mean=mean)
    proof = certificate.check(X, Y, rigorous=True).proved
    assert proof is not None
    assert proof.kl <= certificate.kl
    assert proof.bound <= certificate.bound
    left = dataclasses.replace(certificate, mean=None)
    same = prove(left, rows.raw(X, mean.apply(X, Y)))
    assert (proof.kl, proof.risk) == (same.kl, same.risk)
    assert "depends on y itself" in refused(dataclasses.replace(certificate, loss=Relative(2.0)))
