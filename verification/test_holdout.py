"""N-held-out, N-held-out-kl, N-coverage, N-tandem: what rows that the predictor has not seen prove."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb, factorial

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import binom
from thinning import one_in

from gpbounds.pacbayes import bound, coverage_factor, coverage_rank, holdout, holdout_bound, kl, tandem_bound, xi
from gpbounds.pacbayes.certificate.statement import mean_bound
from gpbounds.reference import pacbayes as reference
from gpbounds.rigor import at_bits, rational

SEEDS = st.integers(0, 2**32 - 1)
DELTAS = (0.3, 0.05, 0.01, 1e-6, 1e-100)
WANTED = [(level, delta) for level in (0.5, 0.75, 0.9, 0.95, 0.99) for delta in (0.2, 0.1, 0.05, 0.01, 1e-6)]


def _sharp(k: object, n: object, delta: object, losses: str = "zero-one") -> np.ndarray:
    return np.asarray(holdout_bound(k, n, delta=delta, losses=losses, rigor="sharp").value)  # type: ignore[arg-type]


def _tail(k: int, n: int, p: float) -> Fraction:
    """P(Bin(n, p) ≤ k) of a double p, as a fraction."""
    share = Fraction(p)
    return sum((comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(k + 1)), Fraction(0))


def _units(k: int, n: int, p: Fraction) -> int:
    """P(Bin(n, p) ≤ k) in units of 2^-2048, each step rounded down: off by less than 2^-500 in all."""
    num, den = p.numerator, p.denominator
    rest = den - num
    if not rest or not num:
        return 0 if num else 1 << 2048
    total = term = (rest**n << 2048) >> n * (den.bit_length() - 1)
    for j in range(k):
        term = term * ((n - j) * num) // ((j + 1) * rest)
        total += term
    return total


def _exceeds(k: int, n: int, p: float, delta: Fraction) -> bool:
    """Whether P(Bin(n, p) ≤ k) > δ, by the sum with fewer terms; both must not agree to 2^-500."""
    if 2 * k < n:
        excess = Fraction(_units(k, n, Fraction(p)), 1 << 2048) - delta
    else:
        excess = 1 - delta - Fraction(_units(n - k - 1, n, 1 - Fraction(p)), 1 << 2048)
    assert abs(excess) > Fraction(1, 1 << 500)
    return excess > 0


@pytest.mark.claim("N-held-out")
def test_the_bound_is_the_least_double_for_every_count(observe: Observer) -> None:
    for i, n in enumerate((1, 2, 3, 4, 5, 8, 17, 40, 99, 150, 256, 333)):
        _least_doubles(observe, n, DELTAS[i % len(DELTAS)])
    for k, n, delta in ((0, 7, 0.05), (40, 100, 0.01), (99, 120, 0.3), (290, 300, 1e-6), (2, 500, 1e-100)):
        truth = reference.held_out_risk(k, n, mp.mpf(delta))
        B = float(_sharp(k, n, delta))
        observe.upper("N-held-out", [truth], [mp.mpf(B)])
        assert mp.mpf(float(np.nextafter(B, 0.0))) < truth


@pytest.mark.slow
@pytest.mark.claim("N-held-out")
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("first", [1, 2, 3, 4, 5])
def test_the_bound_is_the_least_double_for_all_numbers_of_rows_up_to_five_hundred(
    observe: Observer, first: int, delta: float
) -> None:
    for n in range(first, 501, 5):
        _least_doubles(observe, n, delta)


def _least_doubles(observe: Observer, n: int, delta: float) -> None:
    """P(Bin(n, B) ≤ k) ≤ δ < P(Bin(n, B⁻) ≤ k), B⁻ the double before B: all k."""
    goal, B = Fraction(delta), _sharp(np.arange(n), n, delta)
    for k, b in enumerate(B.tolist()):
        assert not _exceeds(k, n, b, goal), (k, n)
        assert _exceeds(k, n, math.nextafter(b, 0.0), goal), (k, n)
    observe.holds("N-held-out", True, 2 * n)
    assert float(holdout_bound(n, n, delta=delta, rigor="sharp")) == 1.0


@pytest.mark.claim("N-held-out")
def test_every_count_up_to_five_hundred_rows_in_doubles(observe: Observer) -> None:
    """All 125 250 (k, n) with n ≤ 500: the tail is δ, and the bound increases in k and decreases in n."""
    n, k = (index + 1 - i for i, index in enumerate(np.tril_indices(500)))  # k = 0 … n − 1
    for delta in (0.05, 1e-6):
        B = np.asarray(holdout_bound(k, n, delta=delta))
        observe.holds("N-held-out", (binom.cdf(k, n, B * (1.0 - 1e-13)) >= (1.0 - 1e-9) * delta).all(), n.size)
        observe.holds("N-held-out", (binom.cdf(k, n, np.minimum(B * (1.0 + 1e-13), 1.0)) <= (1.0 + 1e-9) * delta).all())
        square = np.full((501, 501), np.nan)
        square[n, k] = B
        assert (np.diff(square, axis=1)[~np.isnan(np.diff(square, axis=1))] > 0).all()
        assert (np.diff(square, axis=0)[~np.isnan(np.diff(square, axis=0))] < 0).all()


@pytest.mark.claim("N-held-out")
@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 40])
def test_the_probability_of_failure_is_at_most_delta_and_all_of_it_is_spent(observe: Observer, n: int) -> None:
    """Exactly, in fractions: R fails where B(j) < R.  Just above B(k) these are the counts up to k, and F_k → δ."""
    for delta in (0.5, 0.05, 1e-3):
        B = _sharp(np.arange(n + 1), n, delta)
        assert (np.diff(B) > 0).all()
        for k in range(n):
            above = float(np.nextafter(B[k], 1.0))
            wrong = int((above > B).sum()) - 1
            failure = _tail(wrong, n, above)
            observe.upper("N-held-out", [failure], [Fraction(delta)])
            assert wrong == k
            assert failure > (1 - Fraction(1, 10**9)) * Fraction(delta)


@pytest.mark.claim("N-held-out")
@given(seed=SEEDS, n=st.integers(1, 60), share=st.floats(1e-9, 1.0, exclude_max=True), bits=st.integers(20, 200))
def test_balls_hold_the_tail(observe: Observer, seed: int, n: int, share: float, bits: int) -> None:
    """The proof rests on this alone: P(Bin(n, p) ≤ k) lies in its ball, whatever the precision."""
    from flint import arb

    k = int(np.random.default_rng(seed).integers(0, n))
    with at_bits(bits):
        ball = holdout._tail(n, k, Fraction(share))
    with at_bits(8000):
        truth = rational(_tail(k, n, share))
        observe.holds("N-held-out", truth in ball)
        assert abs(ball.mid() - truth) <= arb(2) ** (12 - bits)


@pytest.mark.claim("N-held-out")
def test_ends_and_ties(observe: Observer) -> None:
    """Where B is a double, the bound is B: no ball decides these, whole numbers do."""
    observe.equal("N-held-out", [float(_sharp(k, 2 * k + 1, 0.5)) for k in (0, 1, 50, 500, 500_000)], 0.5)
    observe.equal("N-held-out", _sharp(0, [1, 2, 4, 1000], [0.25, 0.25, 2.0**-4, 2.0**-1000]), [0.75, 0.5, 0.5, 0.5])
    observe.equal("N-held-out", float(_sharp(1, 2, 0.75)), 0.5)  # 1 − B² = δ
    observe.equal("N-held-out", _sharp([0, 3, 7], [5, 5, 7], 1.0), [0.0, 0.0, 1.0])
    assert float(_sharp(3, 5, 1e-300)) == 1.0
    for n in (10, 500):  # where SciPy's inverse is NaN or far off
        k, delta = np.arange(n), 1e-300
        exact = np.array([float(reference.held_out_risk(i, n, mp.mpf(delta))) for i in (1, 8, n - 4)])
        observe.equal("N-held-out", np.asarray(holdout_bound(k, n, delta=delta))[[1, 8, n - 4]], exact, rtol=1e-12)


@pytest.mark.claim("N-held-out")
@given(seed=SEEDS, digits=st.integers(0, 7))
def test_large_numbers_of_rows(observe: Observer, seed: int, digits: int) -> None:
    """Against Arb's own incomplete beta function, up to 10⁷ rows."""
    from flint import arb, ctx

    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 10**digits + 1))
    k = int(rng.choice([rng.integers(0, n), min(rng.integers(0, 9), n - 1)]))
    delta = float(10.0 ** rng.uniform(-12.0, 0.0))
    B = float(_sharp(k, n, delta))
    with ctx.workprec(192):
        ends = [float(p) for p in (B, np.nextafter(B, 0.0)) if p < 1.0]
        tails = [arb(1 - arb(p)).beta_lower(n - k, k + 1, 1) - arb(delta) for p in ends]
    observe.holds("N-held-out", tails[-1] > 0 and (len(tails) == 1 or tails[0] <= 0))
    observe.equal("N-held-out", float(holdout_bound(k, n, delta=delta)), B, rtol=1e-11)


@pytest.mark.claim("N-held-out")
@pytest.mark.parametrize(("risk", "n"), [(0.02, 300), (0.3, 40), (0.004, 100)])
def test_failure_frequency_of_a_predictor_fixed_before(observe: Observer, risk: float, n: int) -> None:
    """Signs of x with flipped labels; 10⁴ sets of rows."""
    rng, delta = np.random.default_rng(7), 0.05
    x = rng.standard_normal((10_000, n))
    labels = np.where(rng.random(x.shape) < risk, -np.sign(x), np.sign(x))
    mistakes = (np.sign(x) != labels).sum(axis=1)
    B = _sharp(np.arange(n + 1), n, delta)[mistakes]
    observe.frequency("N-held-out", int((risk > B).sum()), 10_000, delta)
    two_sided = _sharp(np.arange(n + 1), n, delta / 2)[mistakes]
    assert (risk > two_sided).sum() <= (risk > B).sum()


# Losses in [0, 1].


def _sums(law: dict[Fraction, Fraction], n: int) -> dict[Fraction, Fraction]:
    """The law of the sum of n independent losses."""
    sums = {Fraction(0): Fraction(1)}
    for _ in range(n):
        spread: dict[Fraction, Fraction] = {}
        for (total, mass), (loss, weight) in product(sums.items(), law.items()):
            spread[total + loss] = spread.get(total + loss, Fraction(0)) + mass * weight
        sums = spread
    return sums


@pytest.mark.claim("N-held-out-kl")
@given(seed=SEEDS, n=st.integers(1, 12), atoms=st.integers(2, 4))
def test_exact_failure_probability_for_losses_in_the_unit_interval(
    observe: Observer, seed: int, n: int, atoms: int
) -> None:
    rng = np.random.default_rng(seed)
    losses = [Fraction(int(i), 64) for i in rng.choice(65, atoms, replace=False)]
    weights = rng.integers(1, 50, atoms)
    law = {loss: Fraction(int(w), int(weights.sum())) for loss, w in zip(losses, weights, strict=True)}
    risk, sums = sum(loss * w for loss, w in law.items()), _sums(law, n)
    totals = np.array([float(total) for total in sums])  # exact
    for delta in (0.5, 0.1, 0.01):
        B = _sharp(totals, n, delta, "bounded")
        failure = sum(
            (mass for mass, b in zip(sums.values(), B.tolist(), strict=True) if risk > Fraction(b)), Fraction(0)
        )
        observe.upper("N-held-out-kl", [failure], [Fraction(delta)])


@pytest.mark.claim("N-held-out-kl")
@example(n=5059, share=2.225073858507e-311, log10=0.0)  # doubles there are 5e-324 apart
@example(n=1, share=0.0, log10=-0.25)
@given(n=st.integers(1, 10**7), share=st.floats(0.0, 1.0), log10=st.floats(-15.0, 0.0))
def test_least_double_of_the_kl_form(observe: Observer, n: int, share: float, log10: float) -> None:
    """Against the reference's inverse; and never below the exact bound for whole counts."""
    k, delta = n * share, 10.0**log10
    B = float(_sharp(k, n, delta, "bounded"))
    with mp.workdps(50):
        truth = reference.kl_inverse(mp.mpf(k) / n, -mp.log(mp.mpf(delta)) / n)[0]
        observe.upper("N-held-out-kl", [truth], [mp.mpf(B)], tol=1e-45 * truth)  # B may be the truth
        assert mp.mpf(float(np.nextafter(B, 0.0))) < truth or B == 0.0
    near = float(holdout_bound(k, n, delta=delta, losses="bounded"))
    observe.equal("N-held-out-kl", near, B, rtol=1e-14, atol=1e-323)
    whole = np.arange(min(n, 60) + 1)
    small = min(n, 60)
    observe.upper("N-held-out-kl", _sharp(whole, small, delta), _sharp(whole, small, delta, "bounded"))


@pytest.mark.claim("N-held-out-kl")
def test_ends_of_the_kl_form(observe: Observer) -> None:
    assert _sharp([0.0, 2.5, 5.0], 5, 1.0, "bounded").tolist() == [0.0, 0.5, 1.0]
    observe.equal("N-held-out-kl", _sharp(0, [1, 2, 1000], [0.25, 0.25, 2.0**-1000], "bounded"), [0.75, 0.5, 0.5])
    observe.equal("N-held-out-kl", float(_sharp(1.0, 3, 1.0, "bounded")), np.nextafter(1 / 3, 1.0))  # 1/3 is below 1/3


# Coverage.


@pytest.mark.broad
@pytest.mark.claim("N-coverage")
@pytest.mark.parametrize(("level", "delta"), one_in(9, WANTED))
def test_ranks_of_all_numbers_of_rows_up_to_five_hundred(observe: Observer, level: float, delta: float) -> None:
    """Against sums of fractions, for each n ≤ 500; and the message names the least n."""
    missing = 0
    for n in range(1, 501):
        truth = reference.coverage_rank(n, Fraction(level), Fraction(delta))
        if truth is None:
            missing = n
        else:
            observe.equal("N-coverage", coverage_rank(n, level=level, delta=delta), truth)
    assert missing < 500 or level == 0.99
    for n in {1, missing} - {0} if missing else ():
        with pytest.raises(ValueError, match=rf"n: expected at least {_least(level, delta)} rows"):
            coverage_rank(n, level=level, delta=delta)


def _least(level: float, delta: float) -> int:
    n = 1
    while Fraction(level) ** n > Fraction(delta):
        n += 1
    return n


@pytest.mark.claim("N-coverage")
@given(seed=SEEDS, digits=st.integers(1, 7))
def test_ranks_of_many_rows(observe: Observer, seed: int, digits: int) -> None:
    """P(Beta(k, n+1−k) ≥ level) ≥ 1 − δ at k and not at k − 1, by Arb's own incomplete beta function."""
    from flint import arb, ctx

    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 10**digits + 1))
    level, delta = float(rng.uniform(0.0, 1.0)), float(10.0 ** rng.uniform(-9.0, 0.0))
    if _least_rows(level, delta) > n:
        with pytest.raises(ValueError, match=f"n: expected at least {_least_rows(level, delta)} rows"):
            coverage_rank(n, level=level, delta=delta)
        return
    k = coverage_rank(n, level=level, delta=delta)
    with ctx.workprec(192):
        below = [arb(level).beta_lower(i, n + 1 - i, 1) - arb(delta) for i in (k, k - 1) if i]
    observe.holds("N-coverage", below[0] < 0 and (k == 1 or below[1] > 0))


def _least_rows(level: float, delta: float) -> int:
    with mp.workdps(40):
        return max(int(mp.ceil(mp.log(mp.mpf(delta)) / mp.log(mp.mpf(level)))), 1)


@pytest.mark.claim("N-coverage")
def test_ranks_at_ties(observe: Observer) -> None:
    """P(Bin(2k−1, ½) ≥ k) is ½: at δ = ½ rank k is enough, at any smaller δ it is not."""
    for k in (1, 2, 30, 200, 400_001):
        n = 2 * k - 1
        observe.equal("N-coverage", coverage_rank(n, level=0.5, delta=0.5), k)
        if n > 1:
            observe.equal("N-coverage", coverage_rank(n, level=0.5, delta=float(np.nextafter(0.5, 0.0))), k + 1)
    observe.equal(
        "N-coverage", [coverage_rank(1, level=0.9, delta=0.9), coverage_rank(2, level=0.75, delta=0.5625)], [1, 2]
    )
    observe.equal("N-coverage", [coverage_rank(n, level=0.25, delta=1.0) for n in (1, 9, 10**6)], 1)


@pytest.mark.claim("N-coverage")
@example(seed=0, n=32, level=0.875, delta=1.0)  # a probability of 1e-29
@given(seed=SEEDS, n=st.integers(1, 60), level=st.floats(0.05, 0.95), delta=st.floats(1e-6, 1.0))
def test_factor_and_its_probability(observe: Observer, seed: int, n: int, level: float, delta: float) -> None:
    """κ is the k-th smallest score; its probability is that of the Beta law, rounded down."""
    scores = np.abs(np.random.default_rng(seed).standard_cauchy(n))
    if Fraction(level) ** n > Fraction(delta):
        return
    covering = coverage_factor(scores, level=level, delta=delta)
    truth = _tail(covering.rank - 1, n, level)
    assert covering.rank == reference.coverage_rank(n, Fraction(level), Fraction(delta))
    assert (covering.n, covering.level) == (n, level)
    assert (scores < covering.factor).sum() == covering.rank - 1
    assert (scores <= covering.factor).sum() == covering.rank
    observe.lower("N-coverage", [truth], [Fraction(covering.probability)])
    assert Fraction(covering.probability) + Fraction(1, 2**52) > truth >= 1 - Fraction(delta)
    k = covering.rank
    with mp.workdps(60):
        law = mp.betainc(n + 1 - k, k, 0, 1 - mp.mpf(level), regularized=True)
        observe.equal("N-coverage", law, mp.mpf(truth.numerator) / truth.denominator, rtol=1e-12)


def _counts(n: int, cells: int) -> Iterator[tuple[int, ...]]:
    if cells == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for others in _counts(n - first, cells - 1):
            yield (first, *others)


@pytest.mark.claim("N-coverage")
@given(seed=SEEDS, n=st.integers(1, 9), atoms=st.integers(1, 4), k=st.integers(1, 9))
def test_exact_probability_of_coverage_with_ties(observe: Observer, seed: int, n: int, atoms: int, k: int) -> None:
    """All samples of scores with few values: P(C ≥ level) ≥ P(Bin(n, level) ≤ k − 1), also at atoms."""
    if k > n:
        return
    weights = np.random.default_rng(seed).integers(1, 30, atoms).tolist()
    total = sum(weights)
    G = [Fraction(sum(weights[: i + 1]), total) for i in range(atoms)]
    for level in (0.125, 0.5, 0.75, 0.9375, float(G[0]), math.nextafter(float(G[0]), 0.0)):
        if level >= 1.0:
            continue
        covered = Fraction(0)
        for counts in _counts(n, atoms):
            mass = Fraction(factorial(n))
            for count, weight in zip(counts, weights, strict=True):
                mass *= Fraction(weight, total) ** count / factorial(count)
            scores = np.repeat(np.arange(atoms), counts)
            if G[int(np.sort(scores)[k - 1])] >= Fraction(level):
                covered += mass
        observe.lower("N-coverage", [covered], [_tail(k - 1, n, level)])


@pytest.mark.broad
@pytest.mark.claim("N-coverage")
@pytest.mark.parametrize(("n", "level", "delta"), [(60, 0.9, 0.1), (300, 0.95, 0.05), (30, 0.5, 0.01)])
@pytest.mark.parametrize("ties", [False, True])
def test_failure_frequency_of_intervals(observe: Observer, n: int, level: float, delta: float, ties: bool) -> None:
    """10⁴ sets of calibration rows of a model with a wrong mean and a wrong spread; with ties, in tenths."""
    rng, sets = np.random.default_rng(11), 10_000
    x = rng.uniform(-1.0, 1.0, (sets, n))
    spread = 0.2 + x**2
    y = np.sin(3.0 * x) + 0.3 * rng.standard_normal((sets, n))
    scores = np.abs(y - x) / spread
    many = rng.uniform(-1.0, 1.0, 2_000_000)
    of_new = np.abs(np.sin(3.0 * many) + 0.3 * rng.standard_normal(many.size) - many) / (0.2 + many**2)
    if ties:
        scores, of_new = np.ceil(2.0 * scores), np.ceil(2.0 * of_new)
    covering = coverage_factor(scores[0], level=level, delta=delta)
    factors = np.partition(scores, covering.rank - 1, axis=1)[:, covering.rank - 1]
    assert covering.factor == factors[0]
    truth = np.searchsorted(np.sort(of_new), factors, side="right") / many.size
    failures = int((truth < level - 1e-3).sum())  # 1e-3: the coverage is known from 2·10⁶ rows
    observe.frequency("N-coverage", failures, sets, delta)
    if not ties:  # all of the promised probability is spent, but for the steps of k
        expected = binom.sf(covering.rank - 1, n, level)
        assert (truth < level).mean() > 0.8 * expected - 0.005
        assert covering.probability == pytest.approx(1.0 - expected, rel=1e-9)


# The tandem risk.


def _posteriors(hypotheses: int) -> np.ndarray:
    """All laws on so many hypotheses with weights in quarters."""
    return np.array(list(_counts(4, hypotheses))) / 4.0


@pytest.mark.claim("N-tandem")
@given(seed=SEEDS, N=st.integers(1, 7), hypotheses=st.integers(2, 4), atoms=st.integers(2, 4))
def test_exact_failure_probability_for_all_posteriors_at_once(
    observe: Observer, seed: int, N: int, hypotheses: int, atoms: int
) -> None:
    """All samples of a finite domain, all Q of a grid: some T exceeds its bound with probability at most δ."""
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 2, (hypotheses, atoms)).astype(float)
    law, prior, Q = rng.dirichlet(np.ones(atoms)), rng.dirichlet(np.full(hypotheses, 3.0)), _posteriors(hypotheses)
    pairs = (Q @ losses) ** 2  # (E_Q ℓ)² at each atom
    by_draws = np.einsum("qf,qg,fz,gz->qz", Q, Q, losses, losses)
    observe.equal("N-tandem", by_draws, pairs, atol=1e-15)  # two independent draws are both wrong
    observe.lower("N-tandem", pairs @ law, ((Q @ losses) @ law) ** 2, tol=1e-15)
    true = pairs @ law
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(Q > 0.0, Q * np.log(Q / prior), 0.0).sum(axis=1)
    counts = np.array(list(_counts(N, atoms)))
    mass = np.array([factorial(N) / math.prod(map(factorial, row)) for row in counts]) * (law**counts).prod(axis=1)
    empirical = np.minimum(counts @ pairs.T / N, 1.0)  # (samples, Q)
    for delta in (0.5, 0.1, 0.01):
        B = tandem_bound(empirical, divergence, N, delta=delta)
        failed = (true > np.asarray(B.terms["T"]) + 1e-12).any(axis=1)
        observe.upper("N-tandem", mass[failed].sum(), delta)
        assert ((np.asarray(B) >= np.minimum(4.0 * true, 1.0) - 1e-11).all(axis=1) | failed).all()


@pytest.mark.claim("N-tandem")
@given(seed=SEEDS, N=st.integers(1, 8))
def test_moment_of_the_prior_itself(observe: Observer, seed: int, N: int) -> None:
    """Pairs that are both wrong with probability p: the moment is ξ(N), so that only KL(Q⊗Q‖P⊗P) is left to pay."""
    rng = np.random.default_rng(seed)
    p = float(rng.uniform(0.05, 0.95))
    k = np.arange(N + 1)
    moment = (binom.pmf(k, N, p) * np.exp(N * np.asarray(kl(k / N, p)))).sum()
    observe.equal("N-tandem", moment, float(xi(N)), rtol=1e-10)
    weights, prior = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    one = (weights * np.log(weights / prior)).sum()
    two = (np.outer(weights, weights) * np.log(np.outer(weights, weights) / np.outer(prior, prior))).sum()
    observe.equal("N-tandem", two, 2.0 * one, rtol=1e-9, atol=1e-12)


@pytest.mark.claim("N-tandem")
@given(seed=SEEDS, half=st.floats(0.0, 3.0), points=st.integers(1, 6))
def test_the_mean_prediction_errs_at_most_four_times_the_tandem(
    observe: Observer, seed: int, half: float, points: int
) -> None:
    """Laws with atoms m ± u, for the band loss and for the sign of labels; equality at two points."""
    rng = np.random.default_rng(seed)
    m, u = rng.normal(size=60), np.abs(rng.normal(size=(60, points))) * rng.integers(0, 2, points)
    weights = 0.5 * rng.dirichlet(np.ones(points))
    y, labels = rng.normal(scale=2.0, size=60), rng.choice([-1.0, 1.0], 60)
    m[:5] = 0.0  # a vote without a majority is wrong, for sure
    for wrong in (lambda v: np.abs(y - v.T).T > half, lambda v: (labels * v.T).T <= 0.0):
        expected = (wrong(m[:, None] - u) + 0.0) @ weights + (wrong(m[:, None] + u) + 0.0) @ weights
        observe.upper("N-tandem", wrong(m[:, None])[:, 0] + 0.0, 4.0 * expected**2, tol=1e-12)
    observe.equal("N-tandem", 4.0 * (0.5 * (abs(1.0 - 0.0) > 0.5) + 0.5 * (abs(1.0 - 1.0) > 0.5)) ** 2, 1.0)


@pytest.mark.claim("N-tandem")
def test_four_times_the_tandem_needs_its_hypotheses(observe: Observer) -> None:
    values, weights = np.array([0.0, 10.0]), np.array([0.9, 0.1])
    wrong, of_mean = weights @ (np.abs(values) > 0.5), float(abs(weights @ values) > 0.5)
    observe.fails("N-tandem", of_mean <= 4 * wrong**2, "asymmetric law: v = 0 w.p. .9, 10 w.p. .1, y = 0: 4T = .04")
    constant = 0.2
    observe.fails("N-tandem", constant <= 4 * constant**2, "the constant loss .2, not in {0, 1}: 4T = .16 < .2")


@pytest.mark.claim("N-tandem")
@given(
    tandem=st.floats(0.0, 1.0), nats=st.floats(0.0, 500.0), N=st.integers(1, 300), delta=st.floats(1e-9, 1.0),
    charge=st.floats(0.0, 20.0),
)  # fmt: skip
def test_tandem_bound_equals_the_reference(
    observe: Observer, tandem: float, nats: float, N: int, delta: float, charge: float
) -> None:
    options = {"delta": delta, "log_prior_penalty": charge}
    truth = reference.tandem_bound(tandem, nats, N, delta, charge)
    observe.equal("N-tandem", mp.mpf(float(tandem_bound(tandem, nats, N, **options))), truth, rtol=1e-12)
    proved = tandem_bound(tandem, nats, N, **options, rigor="sharp")
    observe.upper("N-tandem", [truth], [mp.mpf(float(proved))])
    observe.equal("N-tandem", mp.mpf(float(proved)), truth, rtol=1e-13)
    assert proved.certified


@pytest.mark.claim("N-tandem")
def test_failure_frequency_of_the_vote(observe: Observer) -> None:
    """Ten noisy experts, Q chosen by the sample: the vote's risk exceeds its bound in at most δ of 10⁴ samples."""
    rng, N, delta, experts = np.random.default_rng(3), 120, 0.1, 10
    domain = 200
    wrong = (rng.random((experts, domain)) < np.linspace(0.05, 0.5, experts)[:, None]).astype(float)
    vote_and_tandem = lambda Q: (((Q @ wrong) >= 0.5).mean(axis=-1), ((Q @ wrong) ** 2).mean(axis=-1))  # noqa: E731
    rows = rng.integers(0, domain, (10_000, N))
    seen = wrong[:, rows].mean(axis=2).T  # (samples, experts)
    Q = np.exp(-40.0 * seen)
    Q /= Q.sum(axis=1, keepdims=True)
    divergence = (Q * np.log(Q * experts)).sum(axis=1)
    empirical = np.array([((q @ wrong[:, r]) ** 2).mean() for q, r in zip(Q, rows, strict=True)])
    B = tandem_bound(empirical, divergence, N, delta=delta)
    of_vote, true = vote_and_tandem(Q)
    observe.frequency("N-tandem", int((true > np.asarray(B.terms["T"])).sum()), 10_000, delta)
    observe.frequency("N-tandem", int((of_vote > np.asarray(B)).sum()), 10_000, delta)
    assert float(bound(0.5, 0.0, N, delta=delta)) < 1.0  # the bound says something at this size


@pytest.mark.claim("N-tandem", "P-38")
@given(seed=SEEDS)
def test_the_bound_on_the_mean_prediction_is_the_least_of_three(observe: Observer, seed: int) -> None:
    """min(1, 2B, 4T) by kl⁻¹ in 30 digits, rounded up by 1e-9 of it at most."""
    rng = np.random.default_rng(seed)
    risk, kl, delta = rng.uniform(0.0, 0.4), rng.uniform(0.0, 50.0), 0.02
    N, count, tandem = int(rng.integers(100, 5000)), int(rng.integers(2, 20)), risk * rng.uniform()
    value = mean_bound(risk, tandem, kl, count, N, delta)
    with mp.workdps(30):
        paid = mp.log(count) + mp.log(reference.xi(N) / mp.mpf(delta))
        once = 2 * reference.kl_inverse(mp.mpf(risk), (mp.mpf(kl) + paid) / N)[0]
        twice = 4 * reference.kl_inverse(mp.mpf(tandem), (2 * mp.mpf(kl) + paid) / N)[0]
        least = min(mp.mpf(1), once, twice)
        observe.upper("N-tandem", least, value)
        observe.upper("N-tandem", mp.mpf(value), least * (1 + mp.mpf("1e-9")))
