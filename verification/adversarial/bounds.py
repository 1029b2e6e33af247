"""Bounds on log p(y) and on the divergence of the best sparse posterior under attack."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from flint import arb
from sklearn.exceptions import ConvergenceWarning

from adversarial import laws, truths
from adversarial.instances import Instance, Refused, Statement, one_of, order
from fitting import SparseGP
from gpbounds import Empirical, audit, iterative, kdpp, rate, renyi
from gpbounds.pacbayes import Exact, Sparse
from gpbounds.renyi import operator
from gpbounds.renyi.escalation import computed_evidence
from gpbounds.spectra import spectrum
from gpbounds.spectra.empirical import DataSpectrum
from gpbounds.whitening import whiten

IMPROBABLE = 1e-9
"""δ of bounds that may fail: among a million cases one failure is an error of the bound."""


def evidence(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    options: list[dict[str, Any]] = [
        {},
        {"rigor": "float"},
        {"members": "cheap"},
        {"members": "all", "alphas": (0.3, 1.0)},
        {"rigor": "sharp"},
    ]
    lower, upper = renyi.evidence(*case.arguments, noise=case.noise, **one_of(options, rng))
    yield float(lower), truths.evidence(case), float(upper)


def computed(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    lower, upper = computed_evidence(case.kernel, case.X, case.y[:, None], noise=case.noise)
    yield float(lower), truths.evidence(case), float(upper)


def by_iterations(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """log p(y), and the ends of log|K + σ²I| and of yᵀ(K + σ²I)⁻¹y among its terms."""
    sizes = {"block": int(rng.integers(1, 5)), "neighbours": int(rng.integers(0, 5)), "probes": int(rng.integers(2, 9))}
    settings = {"noise": case.noise, "delta": IMPROBABLE, "memory": float(rng.choice([1.0, 1e6])), **sizes}
    lower, upper = iterative.evidence(case.kernel, case.X, case.y, rng=rng, **settings)
    noisy = truths.noisy(case)
    yield float(lower), lambda: truths.log_normal(noisy(), case.y), float(upper)
    low, high = lower.terms["log|K|"].tolist()
    yield low, lambda: noisy().det().log(), high
    low, high = lower.terms["quadratic"].tolist()
    yield low, lambda: truths.quadratic(noisy(), case.y), high


def of_model(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """`log_evidence_bounds` of a model after one step of training, at its own kernel and targets."""
    M, kind = len(np.unique(case.X, axis=0)) // 2 + 1, str(rng.choice(["vfe", "fitc"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparseGP(kind, kernel=case.kernel, noise=case.noise, max_iter=1, n_inducing=M).fit(case.X, case.y)
    lower, upper = model.log_evidence_bounds()
    own = replace(case, kernel=model.kernel_, X=model.X_train_, y=model.y_train_, noise=float(model.noise_))
    yield float(lower), truths.evidence(own), float(upper)


def gap(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    jitter, alpha = _jitter(case, rng), order(rng)
    options: list[dict[str, Any]] = [{"method": each} for each in ("auto", "dense", "blocks", "streamed")]
    chosen = one_of([*options, {"rigor": "sharp"}], rng)
    lower, upper = renyi.gap(*case.arguments, alpha, noise=case.noise, jitter=jitter, **chosen)
    yield float(lower), truths.divergence(case, jitter, alpha), float(upper)


def gap_from_trace(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    jitter, alpha = _jitter(case, rng), order(rng)
    upper = renyi.gap_from_trace(*case.arguments, alpha, noise=case.noise, jitter=jitter)
    yield None, truths.divergence(case, jitter, alpha), float(upper)


def expected_gap_bounds(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    jitter, alpha = _jitter(case, rng), order(rng)
    lower, upper = renyi.expected_gap_bounds(case.kernel, case.X, case.Z, alpha, noise=case.noise, jitter=jitter)
    yield float(lower), truths.mean_divergence(case, jitter, alpha), float(upper)


def operator_gap(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """λ_max(K − Q)/σ² as an eigenvalue, and by probes, which are otherwise left to more than 2000 rows."""
    jitter = _jitter(case, rng)
    with mock.patch.object(operator, "DENSE", one_of([operator.DENSE, 0], rng)):
        upper = renyi.operator_gap(
            case.kernel, case.X, case.Z, noise=case.noise, jitter=jitter, delta=IMPROBABLE, rng=rng
        )
    ratio = truths.largest_residual(case, jitter)
    yield upper.terms["lower"], ratio, float(upper)


def enough(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """An audit: log p(y), ELBO and KL of the model, numbers of points that do, that cannot do, and what they leave."""
    about, target = audit.subject(*case.arguments, noise=case.noise), float(10.0 ** rng.uniform(-3.0, 3.0))
    stated = audit.enough(about, target=target, most=one_of([2, 1000], rng))
    assert stated.model is not None
    assert stated.divergence is not None
    assert stated.floor is not None
    model = truths.dense(case, _least_jitter(case))
    yield float(stated.evidence[0]), lambda: model().evidence(), float(stated.evidence[1])
    yield float(stated.model.ends[0]), lambda: model().objective(), float(stated.model.ends[1])
    yield float(stated.divergence[0]), lambda: model().divergence(), float(stated.divergence[1])
    for number, low, high in (
        (stated.counts[0], None, target),
        (stated.needed - 1, target, None),
        (int(stated.floor[0][0]), float(stated.floor[1][0]), None),
    ):
        rows = kdpp.select(case.kernel, case.X, number, trace=0.0).Z if number else case.Z[:0]
        if number and len(rows) == number:  # K may have fewer independent rows
            of_rows = replace(case, Z=rows)
            yield low, truths.divergence(of_rows, _least_jitter(of_rows)), high


def consequences(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """What the bound on the divergence means for the mean and the variance of f at one input (Prop. 4)."""
    about = audit.subject(*case.arguments, noise=case.noise)
    stated = audit.consequences(about, audit.enough(about, most=1), case.X[:1]).model
    assert stated is not None
    at = one_of([case.X, case.Z, case.X + case.Z[0] - case.X[0]], rng)[:1]
    sparse, exact = (
        truths.once(partial(laws.law, case.kernel, record, case.X, case.y, at))
        for record in (Sparse(case.Z, case.noise, 0.0, _least_jitter(case)), Exact(case.noise))
    )
    yield None, lambda: abs(sparse().means[0] - exact().means[0]) / exact().variances[0].sqrt(), float(stated.mean)
    yield float(stated.low), lambda: sparse().variances[0] / exact().variances[0], float(stated.high)


def selected(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """The bound of the best draws, on the divergence, or without y on the trace."""
    M = int(rng.integers(1, max(2, len(np.unique(case.X, axis=0)))))
    settings: dict[str, Any] = {"draws": one_of(["certain", 1, 3], rng), "jitter": one_of(["auto", 0.0], rng)}
    alpha = order(rng)
    if settings["draws"] == "certain" or rng.random() < 0.7:
        settings |= {"y": case.y, "noise": case.noise, "alpha": alpha}
    chosen = kdpp.select(case.kernel, case.X, M, "best", rng, delta=IMPROBABLE, candidates=[case.Z[:M]], **settings)
    if chosen.bound is None:
        raise Refused("no bound is proved")
    own = replace(case, Z=chosen.Z)
    divergence, trace = truths.divergence(own, chosen.jitter, alpha), truths.residual_trace(own, chosen.jitter)
    yield None, divergence if "y" in settings else trace, float(chosen.bound)


def spectrum_of_rows(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """The greatest, the least and another eigenvalue of K/N; those that are listed are upper bounds themselves."""
    X, rigor = case.X[:8], one_of(["auto", "sharp"], rng)
    about, N = spectrum(case.kernel, inputs=Empirical(X), rigor=rigor), len(X)
    assert isinstance(about, DataSpectrum)
    if not about.certified:
        raise Refused("nothing is proved")
    exact = truths.once(lambda: truths.eigenvalues(truths.covariances(case.kernel, X, X)))
    low, high = about.lower_eigenvalues(), np.minimum(about.upper_eigenvalues(), about.eigenvalues(N))
    for i in {0, int(rng.integers(N)), N - 1}:
        yield float(low[i]), lambda i=i: exact()[i] / N, float(high[i])


def rate_of_rows(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """E Tr(K − Q) of one draw for given rows, and what follows by Markov's inequality at α ≤ ½ (R-lem3, R-thm1)."""
    N, delta, alpha = len(case.X), float(10.0 ** rng.uniform(-6.0, -0.1)), float(10.0 ** rng.uniform(-6.0, -0.31))
    M = int(rng.integers(1, N))
    settings: dict[str, Any] = {"inputs": Empirical(case.X), "noise": case.noise, "delta": delta}
    settings["rigor"] = one_of(["auto", "auto", "sharp"], rng)
    stated = rate(case.kernel, N, M, alpha, **settings)

    @truths.once
    def mean() -> Any:
        symmetric = [abs(each) for each in truths.covariances(case.kernel, case.X, case.X).charpoly()][::-1]
        return (M + 1) * symmetric[M + 1] / symmetric[M]

    def markov() -> Any:
        d, beta = mean() / ((N - M) * arb(case.noise)), 1 - arb(alpha)
        w = alpha * d / (1 + beta * d)
        return (N - M) / arb(delta) * (alpha / beta * (1 + beta * d).log() + w - (1 + w).log()) / 2

    yield None, mean, float(stated.terms["expected_trace"])
    yield None, markov, float(stated.terms["markov"])


def _jitter(case: Instance, rng: np.random.Generator) -> float:
    """The least sound jitter as it was computed, 0, or one that an imported model states."""
    wanted: Any = one_of(["auto", 0.0, 1e-10 * case.kernel.max_variance], rng)
    return float(whiten(case.kernel, case.X, case.Z, jitter=wanted).jitter)


def _least_jitter(case: Instance) -> float:
    return float(whiten(case.kernel, case.X, case.Z, jitter="auto").jitter)
