"""The collapsed family: values, derivatives and predictive laws against 50 digits, and members that coincide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import exp, log, mp, mpf
from observer import Observer

from fitting.objectives.objective import Member, Objective, objective
from fitting.posterior import InducingPosterior
from gpbounds.divergences import collapsed_posterior
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.reference import evidence as reference
from gpbounds.reference import renyi as blocks_of
from gpbounds.reference import spectra
from gpbounds.renyi import elbo, log_evidence, predict

SEEDS = st.integers(0, 2**32 - 1)
N, M, D, P = 5, 2, 2, 2
PAIRS = [0, 1, 1, 0, 2]
STRUCTURES = {
    "vfe": (Member("diagonal", 0.0), reference.singles(N)),
    "dtc": (Member("none", 0.0), []),
    "fitc": (Member("diagonal", 1.0), reference.singles(N)),
    "pep": (Member("diagonal", 0.35), reference.singles(N)),
    "pitc": (Member("blocks", 1.0), [[0, 3], [1, 2], [4]]),
    "pic": (Member("blocks", 1.0, inside=True), [[0, 3], [1, 2], [4]]),
    "power pic": (Member("blocks", 0.6), [[0, 3], [1, 2], [4]]),
    "renyi": (Member("full", 0.7), [list(range(N))]),
    "renyi at 0": (Member("full", 1.0), [list(range(N))]),
    "exact": (Member("full", 1.0, inside=True), [list(range(N))]),
}
every_member = pytest.mark.parametrize("name", STRUCTURES)


@dataclass(frozen=True)
class Case:
    """Data, and one point at which an objective is evaluated."""

    X: Any
    Y: Any
    Z: Any
    p: int | None  # Matérn of ν = p + ½, or the squared exponential
    logs: Any  # log variance, log lengthscales, log noise

    @property
    def kernel(self) -> Kernel:
        variance, *lengthscales = np.exp(self.logs[:-1])
        if self.p is None:
            return SquaredExponential(variance, lengthscales)
        return Matern(self.p + 0.5, variance, lengthscales)

    @property
    def noise(self) -> float:
        return float(np.exp(self.logs[-1]))

    def prior(self, logs: Any, Z: Any) -> tuple[Any, Any, Any]:
        """Kff, Kuf, Kuu in mpmath, from the very same numbers."""
        variance, *lengthscales = (exp(v) for v in logs[:-1])
        pairs = ((self.X, self.X), (Z, self.X), (Z, Z))
        K, Kuf, Kuu = (spectra.stationary(list(a), list(b), variance, lengthscales, self.p) for a, b in pairs)
        return K, Kuf, Kuu

    def truth(self, name: str, logs: Any = None, Z: Any = None) -> Any:
        logs = [mpf(v) for v in self.logs] if logs is None else logs
        points = exact(self.Z) if Z is None else Z
        member, blocks = STRUCTURES[name]
        prior = self.prior(logs, points)
        return reference.collapsed_objective(*prior, blocks_of.matrix(self.Y), exp(logs[-1]), member.power, blocks)


def exact(points: Any) -> list[list[Any]]:
    return [[mpf(float(v)) for v in row] for row in points]


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, D)), rng.standard_normal((M, D))
    logs = np.array([rng.normal(), *rng.normal(0.0, 0.5, D), rng.normal(-1.5, 1.0)])
    return Case(X, rng.standard_normal((N, P)), Z, [None, 0, 1, 2][seed % 4], logs)


def build(X: Any, Y: Any, member: Member, **options: Any) -> Objective:
    blocks = PAIRS if member.structure == "blocks" else None
    return objective(X, Y, member, blocks=blocks, **{"jitter": 0.0, "chunk": 3, "keep": 200, **options})


@pytest.mark.claim("R-elbo*", "R-gp", "P-28")
@every_member
@given(seed=SEEDS)
def test_values_are_the_definition_at_50_digits(name: str, seed: int, observe: Observer) -> None:
    c, (member, _) = case(seed), STRUCTURES[name]
    value = build(c.X, c.Y, member).evaluate(c.kernel, c.noise, c.Z, gradient=False).value
    claim = {"exact": "R-gp", "renyi": "R-elbo*"}.get(name, "P-28")
    observe.equal(claim, value, c.truth(name), rtol=1e-9, atol=1e-9)


@pytest.mark.claim("R-grad")
@every_member
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_are_those_of_50_digits(name: str, seed: int, observe: Observer) -> None:
    c, (member, _) = case(seed), STRUCTURES[name]
    gradient = build(c.X, c.Y, member).evaluate(c.kernel, c.noise, c.Z).gradient
    assert gradient is not None
    h, logs = mpf("1e-15"), [mpf(v) for v in c.logs]
    slopes = []
    for i in range(len(logs)):
        moved = [[v + (s * h if j == i else 0) for j, v in enumerate(logs)] for s in (1, -1)]
        slopes.append((c.truth(name, moved[0]) - c.truth(name, moved[1])) / (2 * h))
    scale = float(max(abs(v) for v in slopes))
    observe.equal("R-grad", [*gradient.kernel, gradient.noise], slopes, rtol=1e-8, atol=1e-9 * scale)
    moves = []
    for i, d in np.ndindex(M, D):
        ends = []
        for s in (1, -1):
            Z = exact(c.Z)
            Z[i][d] += s * h
            ends.append(c.truth(name, None, Z))
        moves.append((ends[0] - ends[1]) / (2 * h))
    observe.equal(
        "R-grad", np.ravel(gradient.Z), moves, rtol=1e-8, atol=1e-30 + 1e-9 * float(max(abs(v) for v in moves))
    )


@pytest.mark.claim("R-pred-A", "P-20")
@every_member
@given(seed=SEEDS)
def test_predictive_laws_are_the_definition_at_50_digits(name: str, seed: int, observe: Observer) -> None:
    c, (member, blocks) = case(seed), STRUCTURES[name]
    new = np.random.default_rng(seed + 1).standard_normal((3, D))
    homes = {"exact": [0, 0, 0], "pic": [2, 0, 2]}.get(name)
    logs, points = [mpf(v) for v in c.logs], exact(c.Z)
    variance, *lengthscales = (exp(v) for v in logs[:-1])
    cross = [
        spectra.stationary(exact(a), exact(b), variance, lengthscales, c.p)
        for a, b in ((new, new), (new, c.X), (c.Z, new))
    ]
    prior, Y = c.prior(logs, points), blocks_of.matrix(c.Y)
    mean, cov = reference.collapsed_predict(prior, Y, tuple(cross), exp(logs[-1]), member.power, blocks, homes)
    posterior = build(c.X, c.Y, member).posterior(c.kernel, c.noise, c.Z)
    labels = homes if name == "pic" else None
    predicted, spread = posterior.predict(new, full_cov=True, blocks=labels)
    claim = "P-20" if name == "exact" else "R-pred-A"
    size = {"rtol": 1e-8, "atol": 1e-8 * c.kernel.max_variance}
    observe.equal(claim, predicted, mean.tolist(), rtol=1e-7, atol=1e-7)
    observe.equal(claim, spread, cov.tolist(), **size)
    _, variances = posterior.predict(new, noisy=True, blocks=labels, chunk=2)
    observe.equal(claim, variances, [cov[i, i] + exp(logs[-1]) for i in range(3)], **size)


@pytest.mark.claim("P-25", "P-26", "P-27", "P-28")
@pytest.mark.parametrize("name", ["vfe", "dtc", "fitc", "pep"])
@given(seed=SEEDS)
def test_q_of_u_is_that_of_the_ledger(name: str, seed: int, observe: Observer) -> None:
    c, (member, blocks) = case(seed), STRUCTURES[name]
    posterior = build(c.X, c.Y, member).posterior(c.kernel, c.noise, c.Z)
    assert isinstance(posterior, InducingPosterior)
    logs = [mpf(v) for v in c.logs]
    prior, Y = c.prior(logs, exact(c.Z)), blocks_of.matrix(c.Y)
    a, B = reference.collapsed_posterior(*prior, Y, exp(logs[-1]), member.power, blocks)
    mean, cov = posterior.inducing_law()
    size = 1e-8 * c.kernel.max_variance
    observe.equal("P-27", mean, a.tolist(), rtol=1e-7, atol=1e-7)
    observe.equal("P-27", cov, B.tolist(), rtol=1e-7, atol=size)
    Kuu = prior[2]
    trace = sum(v for v in ((Kuu**-1 * B)[i, i] for i in range(M)))
    kl = P * (trace - M - log(mp.det(B) / mp.det(Kuu))) / 2
    kl += sum((a[:, p].T * Kuu**-1 * a[:, p])[0] for p in range(P)) / 2
    observe.equal("P-26", posterior.kl, kl, rtol=1e-7, atol=1e-9)
    posteriors = [collapsed_posterior(c.kernel, c.X, y, c.Z, noise=c.noise, power=member.power) for y in c.Y.T]
    observe.equal("P-25", posterior.kl, sum(q.kl for q in posteriors), rtol=1e-9, atol=1e-12)
    means, variances = posterior.predict(c.X)
    observe.equal("P-25", means, np.stack([q.predict(c.X).mean for q in posteriors], axis=1), rtol=1e-7, atol=1e-8)
    observe.equal("P-25", variances, posteriors[0].predict(c.X).variance, rtol=1e-8, atol=size)


@pytest.mark.claim("P-28")
@given(seed=SEEDS)
def test_vfe_is_the_evidence_less_a_divergence_and_fitc_is_not(seed: int, observe: Observer) -> None:
    c = case(seed)
    logs = [mpf(v) for v in c.logs]
    prior, Y = c.prior(logs, exact(c.Z)), blocks_of.matrix(c.Y)
    truth = reference.log_evidence(prior[0], Y, exp(logs[-1]))
    observe.lower("P-28", truth, build(c.X, c.Y, STRUCTURES["vfe"][0]).evaluate(c.kernel, c.noise, c.Z).value, tol=1e-9)


@pytest.mark.claim("R-elbo*", "R-lim0", "R-lim1", "R-mono", "R-pred-A", "R-gp")
@given(seed=SEEDS, alpha=st.floats(0.0, 1.0))
def test_the_renyi_member_is_gpbounds_own(seed: int, alpha: float, observe: Observer) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    X, Z, y = rng.standard_normal((n, D)), rng.standard_normal((m, D)), rng.standard_normal(n)
    kernel, noise = Matern(1.5, float(np.exp(rng.normal())), [0.7, 1.3]), float(np.exp(rng.normal(-1.5)))
    same = {"rtol": 1e-9, "atol": 1e-9}

    def value(method: str, **options: Any) -> float:
        return objective(X, y, method, jitter=0.0, **options).evaluate(kernel, noise, Z, gradient=False).value

    middle = value("renyi", alpha=alpha)
    observe.equal("R-elbo*", middle, float(elbo(kernel, X, y, Z, alpha, noise=noise)), **same)
    observe.equal("R-gp", value("exact"), log_evidence(kernel, X, y, noise=noise), **same)
    observe.equal("R-lim0", value("renyi", alpha=0.0), value("exact"), **same)
    observe.equal("R-lim1", value("renyi", alpha=1.0), value("vfe"), **same)
    observe.lower("R-mono", value("exact"), middle, tol=1e-9 * (1.0 + abs(middle)))
    observe.upper("R-mono", value("vfe"), middle, tol=1e-9 * (1.0 + abs(middle)))
    posterior = objective(X, y, "renyi", alpha=alpha, jitter=0.0).posterior(kernel, noise, Z)
    mean, cov = posterior.predict(Z + 0.1, full_cov=True, noisy=True)
    reference_law = predict(kernel, X, y, Z, Z + 0.1, alpha, noise=noise, full_cov=True, noisy=True)
    observe.equal("R-pred-A", mean, reference_law[0], rtol=1e-7, atol=1e-8)
    observe.equal("R-pred-A", cov, reference_law[1], rtol=1e-7, atol=1e-8)


@pytest.mark.claim("R-lim1", "R-elbo*")
@pytest.mark.parametrize("structure", ["diagonal", "blocks", "full"])
@pytest.mark.parametrize("power", [1e-300, 1e-18, 1e-12, 1e-8, 1e-4])
def test_a_small_power_is_near_vfe_by_no_more_than_its_size(structure: Any, power: float, observe: Observer) -> None:
    for seed in range(6):
        c = case(seed)
        vfe = build(c.X, c.Y, Member("diagonal", 0.0)).evaluate(c.kernel, c.noise, c.Z)
        near = build(c.X, c.Y, Member(structure, power)).evaluate(c.kernel, c.noise, c.Z)
        assert vfe.gradient is not None
        assert near.gradient is not None
        ratio = N * c.kernel.max_variance / c.noise
        change = 10.0 * power * ratio**2 * (1.0 + float((c.Y**2).sum()) / c.noise)
        observe.equal("R-lim1", near.value, vfe.value, rtol=1e-11, atol=change)
        scale = np.abs(vfe.gradient.kernel).max()
        for slope, limit in zip(near.gradient.kernel, vfe.gradient.kernel, strict=True):
            observe.equal("R-lim1", slope, limit, rtol=1e-9, atol=10.0 * change + 1e-9 * scale)


@pytest.mark.claim("R-lim0", "R-gp")
@given(
    seed=SEEDS,
    power=st.sampled_from([0.0, 0.3, 1.0]),
    structure=st.sampled_from(["diagonal", "none", "blocks", "full"]),
)
def test_with_the_data_as_inducing_points_every_member_is_the_exact_gp(
    seed: int, power: float, structure: Any, observe: Observer
) -> None:
    c = case(4 * (seed // 4) + 1)  # Matérn-½: K well conditioned
    gp = build(c.X, c.Y, Member("full", 1.0)).evaluate(c.kernel, c.noise)
    evaluated = build(c.X, c.Y, Member(structure, power)).evaluate(c.kernel, c.noise, c.X)
    observe.equal("R-lim0", evaluated.value, gp.value, rtol=1e-8, atol=1e-8)
    assert evaluated.gradient is not None
    assert gp.gradient is not None
    if structure != "none":  # DTC drops R, and with it R's derivatives, which do not vanish in Z
        scale = 1.0 + np.abs(gp.gradient.kernel).max()
        for slope, exact_slope in zip(evaluated.gradient.kernel, gp.gradient.kernel, strict=True):
            observe.equal("R-gp", slope, exact_slope, atol=1e-6 * scale)


@pytest.mark.claim("R-elbo*")
@given(seed=SEEDS, power=st.floats(0.01, 1.0))
def test_blocks_of_one_are_the_diagonal_and_one_block_is_everything(seed: int, power: float, observe: Observer) -> None:
    c = case(seed)
    for size, structure in ((1, "diagonal"), (N, "full")):
        blocks = objective(c.X, c.Y, Member("blocks", power), blocks=size, jitter=0.0)
        other = build(c.X, c.Y, Member(structure, power))  # type: ignore[arg-type]
        in_blocks, direct = (F.evaluate(c.kernel, c.noise, c.Z) for F in (blocks, other))
        observe.equal("R-elbo*", in_blocks.value, direct.value, rtol=1e-10, atol=1e-10)
        assert in_blocks.gradient is not None
        assert direct.gradient is not None
        scale = 1.0 + np.abs(direct.gradient.kernel).max()
        observe.equal("R-elbo*", in_blocks.gradient.kernel, direct.gradient.kernel, rtol=1e-7, atol=1e-7 * scale)
        observe.equal("R-elbo*", in_blocks.gradient.noise, direct.gradient.noise, rtol=1e-7, atol=1e-7 * scale)
        assert direct.gradient.Z is not None
        far = 1.0 + np.abs(direct.gradient.Z).max()
        observe.equal("R-elbo*", in_blocks.gradient.Z, direct.gradient.Z, rtol=1e-7, atol=1e-7 * far)


@pytest.mark.claim("R-gp")
@given(seed=SEEDS)
def test_pic_in_one_block_predicts_as_the_exact_gp(seed: int, observe: Observer) -> None:
    c, new = case(seed), np.random.default_rng(seed).standard_normal((4, D))
    pic = objective(c.X, c.Y, "pic", blocks=N, jitter=0.0).posterior(c.kernel, c.noise, c.Z)
    gp = objective(c.X, c.Y, "exact").posterior(c.kernel, c.noise)
    for full in (False, True):
        pic_law, gp_law = pic.predict(new, full_cov=full, blocks=np.zeros(4)), gp.predict(new, full_cov=full)
        observe.equal("R-gp", pic_law[0], gp_law[0], rtol=1e-7, atol=1e-7)
        observe.equal("R-gp", pic_law[1], gp_law[1], rtol=1e-7, atol=1e-7 * c.kernel.max_variance)
