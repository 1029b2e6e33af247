"""Certificates: issued, saved, loaded, checked, changed by others, and refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from gpbounds import Matern, SquaredExponential
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Linear
from gpbounds.losses import Band, Exponential, Relative, Squared
from gpbounds.pacbayes import (
    Certificate,
    Charge,
    Exact,
    Free,
    HyperGrid,
    Scaling,
    Sparse,
    Whitened,
    bound,
    issue_certificate,
)
from gpbounds.pacbayes.certificate import rows
from gpbounds.pacbayes.certificate.sealed import seal
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.records import read_json, to_json

GRID = HyperGrid.shared(-3.0, 3.0, 60)
ARD = HyperGrid.ard(2, -3.0, 3.0, 60)
Z = np.linspace(-2.0, 2.0, 6)[:, None]
AMPLITUDES = np.array([0.4, -0.3, 0.9, 0.2, -0.8, 0.1])
SPREAD = 0.04 * np.eye(6) + 0.01


def on_grid(variance=1.3, lengthscale=0.7, nu=None, grid=GRID):
    theta = grid.round([variance, *np.atleast_1d(lengthscale)]).theta
    scales = [theta[name] for name in grid.names[1:]]
    scale = scales[0] if grid.names[1] == "lengthscale" else scales
    return SquaredExponential(theta["variance"], scale) if nu is None else Matern(nu, theta["variance"], scale)


def problem(N=40, D=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(N)


X, Y = problem()
POSTERIORS = {
    "exact": Exact(0.3),
    "vfe": Sparse(Z, 0.3, power=0.0),
    "fitc": Sparse(Z, 0.3, power=1.0, jitter=1e-6),
    "beyond": Sparse(Z, 0.3, power=5.0),
    "free": Free(Z, AMPLITUDES, SPREAD),
    "whitened": Whitened(Z, AMPLITUDES, np.linalg.cholesky(SPREAD)),
}
every_posterior = pytest.mark.parametrize("posterior", POSTERIORS.values(), ids=POSTERIORS)


def issue(posterior=POSTERIORS["vfe"], X=X, y=Y, kernel=None, **changes):
    options = {"grid": GRID, "loss": Band(0.6), "delta": 0.05, **changes}
    return Certificate.issue(X, y, posterior, on_grid() if kernel is None else kernel, **options)


@pytest.fixture(scope="module")
def honest():
    return issue(charges=[Charge("accuracy goals ε", 5)], outputs=Scaling("disjoint split", 0.25, 0.5))


# Made, kept, checked


@every_posterior
@pytest.mark.parametrize("loss", [Band(0.6), Squared(1.0), Exponential(0.8), Relative(2.0)], ids=repr)
def test_an_honest_certificate_survives_its_file_and_is_confirmed(tmp_path, posterior, loss):
    certificate = issue(posterior, loss=loss)
    assert certificate.bound < 1.0
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded == certificate
    assert hash(loaded) == hash(certificate)
    assert loaded != dataclasses.replace(certificate, delta=math.nextafter(certificate.delta, 1.0))
    report = loaded.check(X, Y)
    assert report.confirmed, str(report)
    assert report.failed == ()


@given(
    seed=st.integers(0, 10**6),
    N=st.integers(1, 25),
    D=st.integers(1, 3),
    variance=st.floats(0.05, 20.0),
    noise=st.floats(1e-3, 10.0),
    nu=st.sampled_from([None, 0.5, 1.5, 2.5]),
    alpha=st.floats(0.0, 1.0),
    exact=st.booleans(),
)
def test_whatever_is_issued_is_confirmed_and_tampering_with_the_bound_is_not(
    seed, N, D, variance, noise, nu, alpha, exact
):
    X, y = problem(N, D, seed)
    scales = np.random.default_rng(seed).uniform(0.2, 3.0, D)
    grid = HyperGrid.ard(D, -3.0, 3.0, 60)
    posterior = Exact(noise) if exact else Sparse(X[: max(1, N // 3)], noise, alpha)
    try:
        certificate = issue(posterior, X, y, on_grid(variance, scales, nu, grid), grid=grid)
    except ValueError as refusal:  # Kuu nearly singular, noise small: no bound on the rounding, and so no certificate
        if exact or "known beyond rounding" not in str(refusal):
            raise
        reject()
    assert certificate.check(X, y).confirmed
    if certificate.bound < 1.0:
        lower = dataclasses.replace(certificate, bound=math.nextafter(certificate.bound, 0.0)).sealed()
        assert lower.check(X, y).failed == ("bound",)


def test_the_bound_is_that_of_the_theorem(honest):
    paid = math.log(GRID.size) + math.log(5)
    theorem = bound(honest.risk, honest.kl, 40, delta=0.05, log_prior_penalty=paid)
    assert float(theorem) <= honest.bound <= float(theorem) * (1.0 + 1e-13)
    assert honest.log_count == pytest.approx(paid, rel=1e-15)


def test_another_machine_may_round_otherwise(monkeypatch, honest):
    """It may compute any numbers within the allowance, and have an allowance from a twentieth to six times as large."""
    enclose = rows.enclose
    for shift in (-1.0, 1.0):
        for wider in (0.05, 1.0, 6.0):

            def moved(*arguments, shift=shift, wider=wider):
                computed = enclose(*arguments)
                errors = {"risk_error": wider * computed.risk_error, "kl_error": wider * computed.kl_error}
                return dataclasses.replace(
                    computed,
                    risk=computed.risk + shift * computed.risk_error,
                    kl=computed.kl + shift * computed.kl_error,
                    **errors,
                )

            monkeypatch.setattr(rows, "enclose", moved)
            assert honest.check(X, Y).confirmed


@pytest.mark.parametrize("processor", [pytest.param("Prescott", marks=pytest.mark.slow), "Haswell"])
def test_other_linear_algebra_confirms(tmp_path, processor):
    """Where NumPy uses OpenBLAS: with the kernels of another processor and two threads."""
    X, y = problem(150, 2, seed=4)
    kernel = on_grid(1.0, 1.5)
    for name, posterior in {"exact": Exact(1e-3), "sparse": Sparse(X[:30], 0.05, 0.5, jitter=1e-8)}.items():
        issue(posterior, X, y, kernel).save(tmp_path / f"{name}.json")
    np.savez(tmp_path / "data.npz", X=X, y=y)
    program = (
        "import sys, numpy as np; from pathlib import Path; from gpbounds.pacbayes import Certificate; "
        "data = np.load(Path(sys.argv[1]) / 'data.npz'); "
        "files = sorted(Path(sys.argv[1]).glob('*.json')); "
        "print(*(Certificate.load(file).check(data['X'], data['y']).verdict for file in files))"
    )
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor, "OPENBLAS_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.split("\n")[0] == " ".join(["CONFIRMED, given the declarations."] * 2)


@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 8),
    nu=st.sampled_from([None, 0.5, 1.5, 2.5, 7.5]),
    spread=st.floats(1e-6, 40.0),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_kernel_values_are_right_to_their_allowance(seed, dim, nu, spread, offset):
    """Against 50 digits, also far from 0; the errors are at most half the allowance."""
    rng = np.random.default_rng(seed)
    A, B = offset + spread * rng.standard_normal((2, 4, dim))
    scales = rng.uniform(0.1, 3.0, dim)
    kernel = SquaredExponential(1.7, scales) if nu is None else Matern(nu, 1.7, scales)
    allowed = value_error(kernel, np.abs(np.vstack([A, B])).max(axis=0))
    values = kernel(A, B)
    with mpmath.workdps(50):
        for i, a in enumerate(A.tolist()):
            for j, b in enumerate(B.tolist()):
                gaps = zip(a, b, scales.tolist(), strict=True)
                square = sum(((mpmath.mpf(p) - mpmath.mpf(q)) / mpmath.mpf(scale)) ** 2 for p, q, scale in gaps)
                assert abs(values[i, j] - mpmath.mpf(1.7) * correlation(square, nu)) <= allowed / 2


@pytest.mark.parametrize("nu", [None, 0.5, 2.5])
@pytest.mark.parametrize("dim", [300, 4000])
def test_distances_of_many_terms_are_right_to_their_allowance(nu, dim):
    """One large gap, then gaps whose squares each vanish by rounding in the sum: r² is up to dim/2 eps too small."""
    A, B = np.zeros((1, dim)), np.full((1, dim), 1.48e-8)
    B[0, 0] = math.sqrt(2.0)
    kernel = SquaredExponential(1.7) if nu is None else Matern(nu, 1.7)
    with mpmath.workdps(50):
        square = sum(mpmath.mpf(gap) ** 2 for gap in B[0].tolist())
        truth = mpmath.mpf(1.7) * correlation(square, nu)
        assert abs(kernel(A, B)[0, 0] - truth) <= value_error(kernel, np.abs(B[0])) / 2


def correlation(square, nu):
    if nu is None:
        return mpmath.exp(-square / 2)
    z = mpmath.sqrt(2 * mpmath.mpf(nu) * square)
    return 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * z**nu * mpmath.besselk(nu, z) if z else mpmath.mpf(1)


def test_declarations_come_first_and_name_what_no_file_can_prove(honest):
    report = honest.check(X, Y)
    states = [line.state for line in report.lines]
    assert states.index("confirmed") == states.count("declared")
    first = str(report).splitlines()[0]
    assert first.startswith("declared  scaling     Inputs were taken as given")
    declarations = " ".join(line.text for line in report.lines if line.state == "declared")
    for words in (
        "fixed before the data",
        "disjoint",
        "5 accuracy goals ε",
        "independent draws",
        "shift 0.25, scale 0.5",
    ):
        assert words in declarations
    assert report.verdict in str(report).splitlines()[-1]
    with pytest.raises(KeyError):
        report.line("nothing")
    assert report.to_dict()["confirmed"] is True


def test_a_kernel_of_many_lengthscales_stays_one_sentence():
    """NumPy breaks the text of an array into lines, which a report must not contain."""
    X, y = problem(D=13)
    grid = HyperGrid.ard(13, -3.0, 3.0, 60)
    kernel = on_grid(1.3, np.linspace(0.3, 9.0, 13), grid=grid)
    sentence = issue(Exact(0.3), X, y, kernel, grid=grid).check(X, y).line("grid").text
    assert "\n" not in sentence
    assert "  " not in sentence
    for value in kernel.lengthscale:
        assert f"{value:.6g}"[:5] in sentence


def test_the_procedure_rounds_then_rebuilds():
    calls = []

    def rebuild(kernel, inputs, targets):
        calls.append((kernel, targets))
        return Exact(0.3)

    trained = SquaredExponential(1.234, 0.777)
    scaling = Scaling("fixed in advance", 1.0, 2.0)
    certificate = issue_certificate(X, Y, trained, rebuild, grid=GRID, loss=Band(0.6), delta=0.05, outputs=scaling)
    (kernel, targets), *others = calls
    assert not others
    assert kernel == certificate.kernel == on_grid(1.234, 0.777)
    assert kernel != trained
    np.testing.assert_array_equal(targets, (Y - 1.0) / 2.0)
    assert certificate.check(X, Y).confirmed
    everything = {
        "inputs": Scaling("charged", 0.1, 3.0, count=7),
        "outputs": Scaling("disjoint split", 1.0, 2.0),
        "charges": [Charge("kernel families", 3)],
        "grid": GRID,
        "loss": Squared(0.9),
        "delta": 0.02,
    }
    scaled = []
    full = issue_certificate(X, Y, trained, lambda kernel, *data: scaled.append(data) or Exact(0.3), **everything)
    np.testing.assert_array_equal(scaled[0][0], (X - 0.1) / 3.0)
    np.testing.assert_array_equal(scaled[0][1], (Y - 1.0) / 2.0)
    assert full == Certificate.issue(X, Y, Exact(0.3), full.kernel, **everything)
    assert full.count == GRID.size * 7 * 3
    own = {"outputs": Scaling("same data", 0.1, 1.0), "grid": GRID, "loss": Band(0.6), "delta": 0.05}
    assert not issue_certificate(X, Y, trained, rebuild, nonrigorous=True, **own).rigorous
    with pytest.raises(ValueError, match="got 'same data'"):
        issue_certificate(X, Y, trained, rebuild, **own)
    with pytest.raises(ValueError, match=r"rebuild: expected it to return Exact, Sparse, Free or Whitened, got float"):
        issue_certificate(X, Y, trained, lambda *_: 0.3, grid=GRID, loss=Band(0.6), delta=0.05)
    with pytest.raises(ValueError, match="expected the names variance, lengthscale_1"):
        issue_certificate(X, Y, trained, rebuild, grid=ARD, loss=Band(0.6), delta=0.05)


# Changed by others


def leaves(record, path=()):
    """(path, value) of every number, text or truth value in a record."""
    if isinstance(record, dict):
        return [leaf for key, value in record.items() for leaf in leaves(value, (*path, key))]
    if isinstance(record, list):
        return [leaf for i, value in enumerate(record) for leaf in leaves(value, (*path, i))]
    return [(path, record)]


def altered(record, path, value):
    changed = copy.deepcopy(record)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def nearby(value):
    """The smallest change."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return math.nextafter(value, 0.0 if value else 1.0)
    return value[:-1] + ("0" if value[-1] != "0" else "1")


def attempt(path):
    """The report on a file, or the message that it cannot be read."""
    try:
        return Certificate.load(path).check(X, Y)
    except ValueError as error:
        return str(error)


@every_posterior
def test_the_least_change_of_any_field_is_noticed(tmp_path, posterior):
    record = issue(posterior, charges=[Charge("accuracy goals ε", 5)]).to_dict()
    tried = leaves(record)
    assert {path[0] for path, _ in tried} == set(record)
    for path, value in tried:
        write_text(tmp_path / "c.json", to_json(altered(record, path, nearby(value))))
        outcome = attempt(tmp_path / "c.json")
        if isinstance(outcome, str):
            assert any(str(key) in outcome for key in path), (path, outcome)  # the message names the field
        else:
            assert not outcome.confirmed
            assert "seal" in outcome.failed, path


FORGED = {
    "a lower bound": (("bound",), lambda v: math.nextafter(v, 0.0), "bound"),
    "a lower risk": (("risk",), lambda v: v * (1.0 - 1e-6), "risk"),
    "another risk": (("risk",), lambda v: v * (1.0 + 1e-3), "risk"),
    "a lower KL": (("kl",), lambda v: v * (1.0 - 1e-6), "kl"),
    "another KL": (("kl",), lambda v: v + 1.0, "kl"),
    "fewer choices": (("log_count",), lambda v: v - 1.0, "choices"),
    "less xi": (("log_xi",), lambda v: math.nextafter(v, 0.0), "xi"),
    "a smaller delta": (("delta",), lambda v: 0.5 * v, "xi"),
    "a shorter list": (("charges", 0, "count"), lambda v: 1, "choices"),
    "a coarser grid": (("grid", "steps", 0), lambda v: 30, "grid"),
    "a smaller grid": (("grid", "high", 0), lambda v: 2.0, "grid"),
    "another index": (("indices", 0), lambda v: v + 1, "grid"),
    "an index outside": (("indices", 0), lambda v: 61, "grid"),
    "a variance off the grid": (("kernel", "hyperparameters", "variance"), lambda v: math.nextafter(v, 9.0), "grid"),
    "a lengthscale off the grid": (("kernel", "hyperparameters", "lengthscale"), lambda v: 0.9 * v, "grid"),
    "another noise": (("posterior", "noise"), lambda v: 1.01 * v, "kl"),
    "another alpha": (("posterior", "alpha"), lambda v: 0.5, "kl"),
    "another Z": (("posterior", "Z", 2, 0), lambda v: v + 0.1, "kl"),
    "twice the same Z": (("posterior", "Z", 2, 0), lambda v: -2.0, "posterior"),
    "another loss": (("loss", "name"), lambda v: "squared", "risk"),
    "a larger epsilon": (("loss", "epsilon"), lambda v: 1.1 * v, "risk"),
    "a smaller epsilon": (("loss", "epsilon"), lambda v: 0.9 * v, "risk"),
    "another scale": (("outputs", "scale"), lambda v: 2.0 * v, "risk"),
    "scaling of other columns": (("outputs", "shift"), lambda v: [v, v], "posterior"),
    "other data": (("data", "sha256"), lambda v: "0" * 64, "data"),
    "more data": (("data", "rows"), lambda v: 10 * v, "data"),
    "other columns": (("data", "columns"), lambda v: v + 1, "data"),
}


@pytest.mark.parametrize(("path", "change", "line"), FORGED.values(), ids=FORGED)
def test_a_forger_who_seals_again_is_caught_by_the_mathematics(honest, path, change, line):
    record = honest.to_dict()
    value = record
    for key in path:
        value = value[key]
    forged = Certificate.from_dict(altered(record, path, change(value))).sealed()
    report = forged.check(X, Y)
    assert not report.confirmed
    assert line in report.failed, str(report)
    assert report.line(line).state == "failed"


def test_another_kernel_family_fails(honest):
    forged = dataclasses.replace(honest, kernel=on_grid(nu=1.5)).sealed()
    assert {"kl", "risk"} <= set(forged.check(X, Y).failed)


def test_a_larger_bound_is_a_weaker_statement_and_still_true(honest):
    weaker = dataclasses.replace(honest, bound=min(1.0, honest.bound + 0.01))
    assert weaker.check(X, Y).failed == ("seal",)
    assert weaker.sealed().check(X, Y).confirmed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X[::-1], y[::-1]), "their order differ"),
        (lambda X, y: (X, y[::-1]), "SHA-256 differs"),
        (lambda X, y: (np.nextafter(X, 9.0), y), "SHA-256 differs"),
        (lambda X, y: (X[:-1], y[:-1]), "these data have N = 39"),
        (lambda X, y: (np.hstack([X, X]), y), "D = 2"),
    ],
)
def test_other_data_fail_at_the_line_of_the_data(honest, change, words):
    report = honest.check(*change(X, Y))
    assert report.failed == ("data",)
    assert words in report.line("data").text
    assert report.line("risk").state == "skipped"


def test_auto_jitter_becomes_a_number_when_the_certificate_is_issued(tmp_path):
    """Z with a row twice: Kuu needs a jitter, the certificate records it, and a third party rebuilds Q with it."""
    posterior = Sparse([[0.0], [0.0], [1.0]], 0.1, power=1.0)
    with pytest.raises(ValueError, match="jitter: expected a number in a record, got 'auto'"):
        posterior.to_dict()
    certificate = issue(posterior)
    assert certificate.posterior.jitter > 0.0
    certificate.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == certificate
    assert loaded.check(X, Y).confirmed
    assert issue(Sparse([[0.0], [1.0]], 0.1)).posterior.jitter == 0.0


def test_files_keep_the_keys_of_schema_1(honest):
    """The kind of Q is "form" and the power of K - Q is "alpha": files of before the renaming are read unchanged."""
    posterior = Sparse([[0.0], [1.0]], 0.1, power=0.5, jitter=0.0)
    record = issue(posterior, charges=[Charge("kernels", 2)]).to_dict()
    assert record["posterior"] == {"form": "sparse", "noise": 0.1, "alpha": 0.5, "jitter": 0.0, "Z": [[0.0], [1.0]]}
    assert record["charges"] == [{"what": "kernels", "count": 2}]
    assert honest.to_dict()["posterior"]["form"] == honest.posterior.kind


# Refused


def test_a_theta_off_the_grid_is_not_certified():
    with pytest.raises(ValueError, match=r"variance: expected a value of the grid.*HyperGrid\.round"):
        issue(kernel=SquaredExponential(1.3, 0.7))
    with pytest.raises(ValueError, match="grid: expected the names variance, lengthscale_1, lengthscale_2"):
        issue(kernel=on_grid(1.0, [1.0, 1.0], grid=ARD), X=np.hstack([X, X]))
    with pytest.raises(ValueError, match=r"grid: expected the names k1.variance, k1.lengthscale, k2.variance"):
        issue(kernel=on_grid() + Linear())


def test_a_scaling_from_the_same_data_is_refused_or_says_so_in_the_first_line(tmp_path):
    own = Scaling("same data", Y.mean(), Y.std())
    with pytest.raises(ValueError, match=r"got 'same data'.*P-45.*nonrigorous=True"):
        issue(outputs=own)
    certificate = issue(outputs=own, nonrigorous=True)
    assert not certificate.rigorous
    assert str(certificate).startswith("NOT RIGOROUS")
    certificate.save(tmp_path / "c.json")
    report = Certificate.load(tmp_path / "c.json").check(X, Y)
    assert report.confirmed
    assert str(report).splitlines()[0].startswith("NOT RIGOROUS: the scaling was computed from the same data")
    assert "NOT RIGOROUS" in report.verdict
    record = altered(certificate.to_dict(), ("rigorous",), True)
    with pytest.raises(ValueError, match="rigorous: expected False, as the scalings imply, got True"):
        Certificate.from_dict(record)


def test_constants_that_are_those_of_the_data_raise_a_doubt():
    for ddof in (0, 1):
        lying = issue(outputs=Scaling("fixed in advance", Y.mean(), Y.std(ddof=ddof)))
        report = lying.check(X, Y)
        assert report.confirmed
        assert "as if scaled by these very data" in report.line("doubt").text
    with pytest.raises(KeyError):
        issue(outputs=Scaling("fixed in advance", 0.0, 0.7)).check(X, Y).line("doubt")


def test_a_charged_scaling_is_paid_for():
    free, paid = issue(), issue(inputs=Scaling("charged", 0.0, 1.0, count=100))
    assert paid.kl == free.kl
    assert paid.log_count == pytest.approx(free.log_count + math.log(100), rel=1e-14)
    assert paid.bound > free.bound
    assert "100 scalings of the inputs" in paid.check(X, Y).line("choices").text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("guessed",), "origin: expected one of 'as given'"),
        (("as given", 1.0), "got a shift or scale"),
        (("fixed in advance", 0.0, 0.0), "scale: expected a positive"),
        (("fixed in advance", [[1.0]], 1.0), "shift: expected one number or one for each column"),
        (("charged", 0.0, 1.0), "count: expected 2 or more"),
        (("disjoint split", 0.0, 1.0, 3), "count: expected 2 or more with origin 'charged'"),
    ],
)
def test_scalings_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Scaling(*arguments)


def test_a_scaling_must_fit_the_columns():
    with pytest.raises(ValueError, match="scale: expected one number or 1, one for each column, got 2"):
        issue(inputs=Scaling("fixed in advance", 0.0, [1.0, 2.0]))
    with pytest.raises(ValueError, match="expected finite numbers after scaling"):
        issue(inputs=Scaling("fixed in advance", 1e300, 1e-300))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"X": X.astype(np.float32)}, ValueError, "X: expected float64, got float32"),
        ({"y": Y[:, None]}, ValueError, r"y: expected one target a row"),
        ({"y": Y[:-1]}, ValueError, r"y: expected shape \(40,\)"),
        ({"y": np.where(np.arange(40) == 3, np.nan, Y)}, NonFinite, r"row\(s\) \[3\]"),
        ({"X": np.full((40, 1), 2**60)}, ValueError, "X: expected whole numbers below 2"),
        ({"X": np.where(np.arange(40) == 3, 2**53, np.arange(40))[:, None]}, ValueError, "X: expected whole numbers"),
        ({"y": np.where(np.arange(40) == 3, -(2**53), 1)}, ValueError, "y: expected whole numbers"),
        ({"delta": 0.0}, ValueError, "delta: expected"),
        ({"delta": 1.0}, ValueError, r"delta: expected one number in \(0, 1\)"),
        ({"delta": [0.1, 0.2]}, ValueError, "delta: expected one number"),
        ({"loss": lambda y, v: 0.0}, ValueError, "loss: expected one of gpbounds.losses"),
        ({"posterior": Sparse([[0.0], [0.0]], 0.1, jitter=0.0)}, NotPositiveDefinite, "duplicated"),
        ({"posterior": Exact(1e-40)}, ValueError, "finite and known beyond rounding"),
        ({"posterior": Sparse(np.zeros((2, 3)), 0.1)}, ValueError, "Z: expected 1 column"),
        ({"posterior": Free(Z, AMPLITUDES, np.zeros((6, 6)))}, NotPositiveDefinite, "covariance"),
        ({"posterior": 0.3}, ValueError, "posterior: expected Exact, Sparse, Free, Whitened or Updated, got 0.3"),
        ({"charges": "none"}, ValueError, "charges: expected a sequence of Charge"),
        ({"inputs": "as given"}, ValueError, "inputs: expected a Scaling or None, got 'as given'"),
        ({"kernel": Matern(0.7)}, ValueError, "expected a half-integer"),
    ],
)
def test_what_cannot_be_certified_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        issue(**changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exact(0.0), "noise: expected a positive"),
        (lambda: Exact([0.1, 0.2]), "noise: expected one number"),
        (lambda: Sparse(Z, 0.1, power=-0.5), "power: expected a finite number >= 0"),
        (lambda: Sparse(Z, 0.1, jitter=-1.0), "jitter: expected a finite number >= 0"),
        (lambda: Sparse(Z.astype(np.float32), 0.1), "Z: expected float64"),
        (lambda: Free(Z, AMPLITUDES[:-1], SPREAD), "mean, cov: expected shapes"),
        (lambda: Free(Z, AMPLITUDES, SPREAD + np.triu(np.ones((6, 6)), 1)), "equals its transpose"),
        (lambda: Whitened(Z, AMPLITUDES, SPREAD), "factor: expected a lower triangular"),
        (lambda: Whitened(Z, AMPLITUDES, -np.eye(6)), "with a positive diagonal"),
        (lambda: Whitened(Z[:-1], AMPLITUDES, np.eye(6)), "mean, factor: expected shapes"),
        (lambda: Charge("", 3), "choice: expected words"),
        (lambda: Charge("losses", 0), "count: expected a whole number >= 1"),
    ],
)
def test_parts_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# Files


def write_text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a certificate in JSON, but line 1"),
        ("[]", 'a JSON object with "format"'),
        ("{}", 'a JSON object with "format"'),
        ('{"format": "gpbounds certificate"}', "expected schema 1, got None"),
        ('{"format": "gpbounds certificate", "schema": 2}', "another version of gpbounds"),
        ('{"format": "gpbounds certificate", "schema": true}', "expected schema 1, got True"),
        ('{"format": 1, "format": 1}', "expected each field once, got 'format' twice"),
        ('{"format": NaN}', "expected finite numbers, got NaN"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_files_that_are_no_certificates_are_refused(tmp_path, text, words):
    with pytest.raises(ValueError, match=words) as caught:
        Certificate.load(write_text(tmp_path / "c.json", text))
    assert str(caught.value).startswith(str(tmp_path / "c.json"))


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path):
    (tmp_path / "c.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="UTF-8"):
        Certificate.load(tmp_path / "c.json")
    with pytest.raises(FileNotFoundError):
        Certificate.load(tmp_path / "nothing.json")


WRONG = {
    "no delta": (("delta",), None, "expected a field 'delta'"),
    "delta as text": (("delta",), "0.05", "certificate.delta: expected a number, got '0.05'"),
    "delta beyond a double": (("delta",), 10**400, "certificate.delta: expected a number that a double holds"),
    "delta of 3": (("delta",), 3.0, "delta: expected a number from 0 to 1"),
    "negative KL": (("kl",), -1.0, "kl: expected a number from 0"),
    "truth as number": (("kl",), True, "certificate.kl: expected a number, got True"),
    "indices with parts": (("indices",), [1.5, 2], "certificate.indices: expected a list of whole numbers"),
    "no rows": (("data", "rows"), 0, "certificate.data.rows: expected a whole number from 1 to 2"),
    "half a hash": (("data", "sha256"), "abc", "certificate.data.sha256: expected 64 hexadecimal digits"),
    "another field": (("data", "note"), "x", "certificate.data: unknown field"),
    "unknown loss": (("loss", "name"), "hinge", "certificate.loss.name: expected one of 'band'"),
    "unknown kernel": (("kernel", "family"), "Cosine", "certificate.kernel.family: expected one of"),
    "negative lengthscale": (("kernel", "hyperparameters", "lengthscale"), -1.0, "lengthscale: expected a positive"),
    "unknown form": (("posterior", "form"), "dense", "certificate.posterior.form: expected 'exact'"),
    "ragged Z": (("posterior", "Z", 1), [1.0, 2.0], "certificate.posterior.Z: expected a list of rows of equal length"),
    "text in Z": (("posterior", "Z", 1, 0), "1.0", "certificate.posterior.Z: expected a number"),
    "empty Z": (("posterior", "Z"), [], "certificate.posterior.Z: expected a list of rows"),
    "grid upside down": (("grid", "low"), [9.0, 9.0], "certificate.grid.variance: expected ln θ"),
    "scaling by zero": (("outputs", "scale"), 0.0, "certificate.outputs.scale: expected a positive"),
    "charges as object": (("charges",), {}, "certificate.charges: expected a list"),
    "a charge of half": (("charges", 0, "count"), 0.5, r"certificate.charges\[0\].count: expected a whole number"),
    "versions as list": (("versions",), [], "certificate.versions: expected an object"),
}


@pytest.mark.parametrize(("path", "value", "words"), WRONG.values(), ids=WRONG)
def test_a_field_that_is_wrong_is_named(tmp_path, honest, path, value, words):
    record = altered(honest.to_dict(), path, value)
    if value is None:
        del record[path[0]]
    with pytest.raises(ValueError, match=words):
        Certificate.load(write_text(tmp_path / "c.json", json.dumps(record)))


def test_free_covariances_are_written_as_triangles(tmp_path):
    record = issue(POSTERIORS["free"]).to_dict()
    assert [len(row) for row in record["posterior"]["cov"]] == [1, 2, 3, 4, 5, 6]
    record["posterior"]["cov"][3].append(0.0)
    with pytest.raises(ValueError, match=r"certificate.posterior.cov\[3\]: expected a row of 4 number"):
        Certificate.load(write_text(tmp_path / "c.json", json.dumps(record)))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5), st.text(max_size=20))
def test_files_hold_every_double_and_every_text(tmp_path_factory, numbers, text):
    path = tmp_path_factory.mktemp("files") / "c.json"
    record = {
        "format": "gpbounds certificate",
        "schema": 1,
        "numbers": numbers,
        "rows": [numbers, []],
        "texts": [text, f"[\n{text} ]"],
    }
    write_text(path, to_json(record, indent=1, ascii=False, flat=True))
    assert read_json(path, "a record") == record
    assert seal(record) == seal(json.loads(path.read_text(encoding="utf-8")))


def test_a_file_of_whole_numbers_means_the_same_doubles(tmp_path):
    """A certificate is still confirmed after a tool has rewritten 1.0 as 1."""
    certificate = issue(Sparse(Z, 1.0, power=1.0), loss=Squared(1.0))
    text = json.dumps(certificate.to_dict()).replace("1.0,", "1,").replace("0.0,", "0,")
    loaded = Certificate.load(write_text(tmp_path / "c.json", text))
    assert loaded.check(X, Y).confirmed
    assert isinstance(loaded.posterior.noise, float)


def test_records_cannot_be_changed(honest):
    with pytest.raises(dataclasses.FrozenInstanceError):
        honest.bound = 0.0
    with pytest.raises(ValueError, match="read-only"):
        honest.posterior.Z[0] = 1.0


def test_the_fingerprint_is_of_numbers_not_of_memory(honest):
    wide = np.asfortranarray(np.hstack([X, X]))[:, :1]
    assert honest.check(wide, Y.astype(">f8")).line("data").state == "confirmed"
    assert honest.check(X[:, 0], list(Y)).line("data").state == "confirmed"
