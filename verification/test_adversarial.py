"""No interval excludes the truth: every bound given rows against hard instances, beside references in balls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from adversarial import attacks, laws, truths
from adversarial.draws import Drawn
from adversarial.instances import instance
from flint import arb, arb_mat, ctx
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from test_certificates_hard import instance as certified_instance
from test_draws_prior import instance as drawn_instance
from test_proved_rounding import exact_kernel

from gpbounds.interval import Interval, Member
from gpbounds.kdpp.residual import expected_residual
from gpbounds.pacbayes.certificate import checking
from gpbounds.rates.draws.errors import EnclosedRows
from gpbounds.rates.draws.given import best_given
from gpbounds.rates.draws.tilted import tilted_given
from gpbounds.reference import losses, renyi
from gpbounds.renyi.operator import Found
from gpbounds.sandwich import sandwich
from gpbounds.spectra.empirical import EmpiricalSpectrum
from gpbounds.spectra.pairs import EnclosedSpectrum

CLAIMS = {
    "evidence": "N-member-rounding",
    "computed_evidence": "N-computed",
    "iterative.evidence": "N-slq",
    "log_evidence_bounds": "N-member-rounding",
    "gap": "N-member-rounding",
    "gap_from_trace": "N-member-rounding",
    "expected_gap_bounds": "N-dense",
    "operator_gap": "N-op-edge",
    "enough": "N-member-rounding",
    "consequences": "L-30",
    "select": "N-given",
    "spectrum": "N-enclosed",
    "rate": "N-enclosed",
    "rate with y": "N-enclosed",
    "posterior": "N-rounded-kl",
    "issue": "N-rounded-kl",
    "check": "N-rounded-kl",
    "rigorous check": "N-proved-kl",
    "log_det_error": "N-vecchia",
    "residual_certificate": "L-54",
    "kl_from": "L-06",
}


@pytest.mark.broad
@pytest.mark.claim(*sorted(set(CLAIMS.values())))
@pytest.mark.parametrize("name", attacks.ATTACKS)
@given(part=st.integers(0, 2**32 - 1))
def test_no_interval_excludes_the_truth(observe: Observer, name: str, part: int) -> None:
    """An example is a part of the instances; none belongs to two parts."""
    stated, most = 0, -(-attacks.EACH[name] // 2)
    for seed in range(most * part, most * (part + 1)):
        for outcome, excluded in attacks.outcomes(name, seed):
            if outcome == "stated":
                stated += 1
                observe.holds(CLAIMS[name], not excluded)
        if stated >= most:
            break


def test_many_instances_are_bounded() -> None:
    """A bound that refused everything would exclude nothing; "check" is to refuse what is below the truth."""
    for name in attacks.ATTACKS:
        stated = sum(("stated", False) in attacks.outcomes(name, seed) for seed in range(12))
        assert stated >= (2 if name == "check" else 7), name


def _members(patch: pytest.MonkeyPatch) -> None:
    """Members and differences as they were computed."""
    for end in ("lowest", "highest"):
        patch.setattr(Member, end, property(lambda self: self.value))
    for module in ("interval", "audit.levels", "renyi.gap_bounds", "renyi.escalation"):
        patch.setattr(f"gpbounds.{module}.possible", lambda pair, least=0.0: Interval(*pair))


def _in_doubles(patch: pytest.MonkeyPatch) -> None:
    computed = checking.in_doubles
    patch.setattr(checking, "in_doubles", lambda *args: replace(computed(*args), kl_error=0.0, risk_error=0.0))


def _ends(patch: pytest.MonkeyPatch) -> None:
    """The middle of a ball as both of its ends."""
    for end in ("above", "below"):
        patch.setattr(f"gpbounds.pacbayes.certificate.proof.{end}", lambda ball: float(ball.mid()))


def _posteriors(patch: pytest.MonkeyPatch) -> None:
    for kind in ("sparse.SparsePosterior", "full.FullPosterior"):
        patch.setattr(f"gpbounds.divergences.{kind}.kl_rounding", 0.0)


def _objective(patch: pytest.MonkeyPatch) -> None:
    def proved(source: Any, ceiling: Any, reached: Any) -> float:
        return float(source.factor * (ceiling.value - ceiling.rounding - reached.value))

    patch.setattr("gpbounds.kdpp.best._proved", proved)


def _constant(path: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(path, value)


def _eigenvalues(patch: pytest.MonkeyPatch) -> None:
    """Upper bounds of eigenvalues are their lower bounds, in doubles and in 30 digits."""
    for kind in (EmpiricalSpectrum, EnclosedSpectrum):
        patch.setattr(kind, "upper_eigenvalues", kind.lower_eigenvalues)


def _eigenvectors(patch: pytest.MonkeyPatch) -> None:
    """K is what its computed eigenvectors and eigenvalues make."""
    computed = EnclosedRows.__init__

    def init(rows: EnclosedRows, *data: Any) -> None:
        computed(rows, *data)
        rows.error, rows.eigen = 1e-300, replace(rows.eigen, components_error=0.0)

    patch.setattr(EnclosedRows, "__init__", init)


def _quotient(patch: pytest.MonkeyPatch) -> None:
    """The Rayleigh quotient as both bounds on the largest eigenvalue."""

    def ends(own: Any, above: float, below: float, estimate: float, products: int = 0, random: bool = False) -> Found:
        return Found(*(3 * [estimate / own.problem.noise]), products, random)

    patch.setattr("gpbounds.renyi.operator._Residual.ends", ends)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], int]] = {
    "evidence": (_members, 15),
    "computed_evidence": (_members, 0),
    "iterative.evidence": (_constant("gpbounds.iterative.log_det.half_width", lambda *args, **kept: 0.0), 0),
    "log_evidence_bounds": (_members, 10),
    "gap": (_members, 108),
    "gap_from_trace": (_members, 108),
    "expected_gap_bounds": (_members, 2),
    "operator_gap": (_quotient, 0),
    "enough": (_members, 4),
    "consequences": (_constant("gpbounds.audit.predictions.sandwich", lambda kl: sandwich(0.5 * float(kl))), 62),
    "select": (_objective, 11),
    "spectrum": (_constant("gpbounds.spectra.empirical.DataSpectrum.eigenvalues", lambda own, n: own._values[:n]), 2),
    "rate": (_eigenvalues, 0),
    "rate with y": (_eigenvectors, 12),
    "posterior": (_posteriors, 2),
    "issue": (_in_doubles, 2),
    "check": (_in_doubles, 34),
    "rigorous check": (_ends, 0),
    "log_det_error": (_constant("gpbounds.vecchia.log_det_error", lambda *args, **kept: 0.0), 0),
    "residual_certificate": (_constant("gpbounds.lowrank.truncation.UP", 1.0), 2),
    "kl_from": (_constant("gpbounds.lowrank.divergence.EPS", 0.0), 0),
}
"""An error that is left out, and a seed from which on this is noticed soon."""


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_bounds_without_their_errors_are_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As computed, some bounds of every function lie on the wrong side.

    One charge less is not noticed here, as actual errors are 10 to 1000 times smaller than proved ones: each charge has
    its own test in ``test_proved_rounding.py``.
    """
    plant, first = FAULTS[name]
    plant(monkeypatch)
    assert any(attacks.violated(name, seed) for seed in range(first, first + 100))


def test_the_references_are_those_of_mpmath() -> None:
    """Entries of the kernels, the density of a normal law, and D_α by the definition of Rényi's divergence."""
    import mpmath as mp

    plain = [
        case
        for case in map(instance, range(200))
        if not {"constant", "scaled", "duplicated", "far"} & set(case.is_hard)
    ]
    for case in [case for case in plain if not hasattr(case.kernel, "k1") and len(case.X) < 8][:8]:
        with mp.workdps(150):
            jitter = 1e-6 * case.kernel.max_variance
            K, Kuf = (exact_kernel(case.kernel, rows, case.X) for rows in (case.X, case.Z))
            Kuu = exact_kernel(case.kernel, case.Z, case.Z) + mp.mpf(jitter) * mp.eye(len(case.Z))
            C = K + mp.mpf(case.noise) * mp.eye(len(case.X))
            y = mp.matrix([mp.mpf(float(value)) for value in case.y])
            density = -((y.T * mp.lu_solve(C, y))[0] + mp.log(mp.det(C)) + len(y) * mp.log(2 * mp.pi)) / 2
            assert float(truths.narrow(truths.evidence(case)).mid()) == pytest.approx(float(density), rel=1e-14)
            for alpha in (0.5, 1.0):
                data = K, Kuf, Kuu, y, mp.mpf(case.noise), mp.mpf(alpha)
                gap, mean = renyi.gap_by_definition(*data), renyi.expected_gap(*data[:3], *data[4:])
                assert float(truths.narrow(truths.divergence(case, jitter, alpha)).mid()) == pytest.approx(
                    float(gap), rel=1e-13
                )
                assert float(truths.narrow(truths.mean_divergence(case, jitter, alpha)).mid()) == pytest.approx(
                    float(mean), rel=1e-13
                )


def test_the_laws_of_one_draw_are_those_of_its_eigenvalues() -> None:
    """E(K − Q) over all subsets, and the means of N-tilt, by symmetric polynomials in double precision."""
    regular = [each for each in map(drawn_instance, range(60)) if each[0].values.min() > 1e-3][:12]
    assert len(regular) == 12
    finite = 0
    for cell, rng, M in regular:
        y, alpha, p = rng.standard_normal(len(cell.K)), 0.7, 0.9
        residual = expected_residual(cell.values, M, noise=cell.noise)
        squares = (cell.vectors.T @ y) ** 2
        others = (
            best_given(residual, residual.quadratic(squares), delta=p, alpha=alpha),
            tilted_given(residual, squares, delta=p, alpha=alpha),
        )
        with ctx.workprec(1200):
            K, X = arb_mat([list(map(arb, row)) for row in cell.K.tolist()]), np.arange(float(len(cell.K)))[:, None]
            own = [Drawn(K, X, y, cell.noise, M, alpha, tilted).level(arb(p)) for tilted in (False, True)]
        for ball, other in zip(own, map(float, others), strict=True):
            assert float(ball.mid()) == pytest.approx(other, rel=1e-6)
            finite += other < np.inf
    assert finite >= 18


@pytest.mark.parametrize("form", ["vfe", "fitc", "steep", "free", "whitened", "exact"])
def test_the_references_of_certificates_are_those_of_mpmath(form: str) -> None:
    """KL, laws and expected losses by other formulas at 100 digits."""
    import mpmath as mp

    for seed in range(6):
        with mp.workdps(100), ctx.workprec(1200):
            case = certified_instance(seed, form)
            q = laws.law(case.kernel, case.posterior, case.X, case.y, case.X)
            pairs = [*zip(q.means, case.means, strict=True), *zip(q.variances, case.variances, strict=True)]
            for own, other in [(q.kl, case.kl), *pairs]:
                assert float(own.mid()) == pytest.approx(float(other), rel=1e-13)
            y, m, v = (float(x) for x in (case.y[0], q.means[0].mid(), q.variances[0].mid() + 1e-6))
            mean = getattr(losses, case.loss.name)(*map(mp.mpf, (y, m, v, case.loss.epsilon)))
            own = laws.expected(case.loss, *map(arb, (y, m, v)))
            assert float(own.mid()) == pytest.approx(float(mean), rel=1e-13)


def test_an_interval_that_is_wrong_by_a_little_is_noticed() -> None:
    truth = truths.narrow(truths.evidence(instance(1)))
    middle = float(truth.mid())
    near = np.nextafter(middle, [-np.inf, np.inf])
    assert truths.contains(float(near[0]), truth, float(near[1]))
    assert not truths.contains(float(near[1]), truth, None)
    assert not truths.contains(None, truth, float(near[0]))
