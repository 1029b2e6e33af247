"""Bounds on log p(y) and on the divergence of the best sparse posterior under attack."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb
from sklearn.exceptions import ConvergenceWarning

from adversarial import laws, truths
from adversarial.instances import Instance, Refused, Statement, one_of
from fitting import SparseGP
from gpbounds import Empirical, audit, iterative, kdpp, rate, renyi
from gpbounds.pacbayes import Exact, Sparse
from gpbounds.renyi.computed import computed_evidence
from gpbounds.whitening import whiten

IMPROBABLE = 1e-9
"""δ of bounds that may fail: among a million cases one failure is an error of the bound."""


def evidence(case: Instance, rng: np.random.Generator) -> Statement:
    options: list[dict[str, Any]] = [
        {},
        {"rigor": "float"},
        {"members": "cheap"},
        {"members": "all", "alphas": (0.3, 1.0)},
        {"rigor": "sharp"},
    ]
    lower, upper = renyi.evidence(*case.arguments, noise=case.noise, **one_of(options, rng))
    return float(lower), truths.evidence(case), float(upper)


def computed(case: Instance, rng: np.random.Generator) -> Statement:
    lower, upper = computed_evidence(case.kernel, case.X, case.y[:, None], noise=case.noise)
    return float(lower), truths.evidence(case), float(upper)


def by_iterations(case: Instance, rng: np.random.Generator) -> Statement:
    sizes = {"block": int(rng.integers(1, 5)), "neighbours": int(rng.integers(0, 5)), "probes": int(rng.integers(2, 9))}
    lower, upper = iterative.evidence(
        case.kernel,
        case.X,
        case.y,
        noise=case.noise,
        delta=IMPROBABLE,
        rng=rng,
        memory=float(rng.choice([1.0, 1e6])),
        **sizes,
    )
    return float(lower), truths.evidence(case), float(upper)


def of_model(case: Instance, rng: np.random.Generator) -> Statement:
    """`log_evidence_bounds` of a model after one step of training, at its own kernel and targets."""
    M, kind = len(np.unique(case.X, axis=0)) // 2 + 1, str(rng.choice(["vfe", "fitc"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparseGP(kind, kernel=case.kernel, noise=case.noise, max_iter=1, n_inducing=M).fit(case.X, case.y)
    lower, upper = model.log_evidence_bounds()
    own = replace(case, kernel=model.kernel_, X=model.X_train_, y=model.y_train_, noise=float(model.noise_))
    return float(lower), truths.evidence(own), float(upper)


def gap(case: Instance, rng: np.random.Generator) -> Statement:
    jitter, alpha = _jitter(case, rng), _order(rng)
    options: list[dict[str, Any]] = [{"method": each} for each in ("auto", "dense", "blocks", "streamed")]
    chosen = one_of([*options, {"rigor": "sharp"}], rng)
    lower, upper = renyi.gap(*case.arguments, alpha, noise=case.noise, jitter=jitter, **chosen)
    return float(lower), truths.divergence(case, jitter, alpha), float(upper)


def gap_from_trace(case: Instance, rng: np.random.Generator) -> Statement:
    jitter, alpha = _jitter(case, rng), _order(rng)
    upper = renyi.gap_from_trace(*case.arguments, alpha, noise=case.noise, jitter=jitter)
    return None, truths.divergence(case, jitter, alpha), float(upper)


def expected_gap_bounds(case: Instance, rng: np.random.Generator) -> Statement:
    jitter, alpha = _jitter(case, rng), _order(rng)
    lower, upper = renyi.expected_gap_bounds(case.kernel, case.X, case.Z, alpha, noise=case.noise, jitter=jitter)
    return float(lower), truths.mean_divergence(case, jitter, alpha), float(upper)


def enough(case: Instance, rng: np.random.Generator) -> Statement:
    """One of the statements of an audit: log p(y), ELBO and KL of the model, numbers of points that do or cannot do."""
    about, target = audit.subject(*case.arguments, noise=case.noise), float(10.0 ** rng.uniform(-3.0, 3.0))
    stated = audit.enough(about, target=target, most=one_of([2, 1000], rng))
    assert stated.model is not None
    assert stated.divergence is not None
    assert stated.floor is not None
    kind = one_of(["evidence", "elbo", "divergence", "chosen", "floor", "needed"], rng)
    if kind == "evidence":
        return float(stated.evidence[0]), truths.evidence(case), float(stated.evidence[1])
    if kind in ("elbo", "divergence"):
        truth = {"elbo": truths.objective, "divergence": truths.divergence}[kind]
        low, high = stated.model.ends if kind == "elbo" else stated.divergence
        return float(low), truth(case, _least_jitter(case)), float(high)
    number, low, high = {
        "chosen": (stated.counts[0], None, target),
        "needed": (stated.needed - 1, target, None),
        "floor": (int(stated.floor[0][0]), float(stated.floor[1][0]), None),
    }[kind]
    if not number:
        raise Refused("no such number of points")
    rows = kdpp.select(case.kernel, case.X, number, trace=0.0).Z
    if len(rows) < number:
        raise Refused("K has fewer independent rows")
    of_rows = replace(case, Z=rows)
    return low, truths.divergence(of_rows, _least_jitter(of_rows)), high


def consequences(case: Instance, rng: np.random.Generator) -> Statement:
    """What the bound on the divergence means for the mean and the variance of f at one input (Prop. 4)."""
    about = audit.subject(*case.arguments, noise=case.noise)
    stated = audit.consequences(about, audit.enough(about, most=1), case.X[:0]).model
    assert stated is not None
    at = one_of([case.X, case.Z, case.X + case.Z[0] - case.X[0]], rng)[:1]
    records = Sparse(case.Z, case.noise, 0.0, _least_jitter(case)), Exact(case.noise)
    of_mean = bool(rng.integers(2))

    def truth() -> Any:
        q, p = (laws.law(case.kernel, record, case.X, case.y, at) for record in records)
        return abs(q.means[0] - p.means[0]) / p.variances[0].sqrt() if of_mean else q.variances[0] / p.variances[0]

    if of_mean:
        return None, truths.narrow(truth), float(stated.mean)
    return float(stated.low), truths.narrow(truth), float(stated.high)


def selected(case: Instance, rng: np.random.Generator) -> Statement:
    """The bound of the best draws, on the divergence, or without y on the trace."""
    M = int(rng.integers(1, max(2, len(np.unique(case.X, axis=0)))))
    settings: dict[str, Any] = {"draws": one_of(["certain", 1, 3], rng), "jitter": one_of(["auto", 0.0], rng)}
    alpha = _order(rng)
    if settings["draws"] == "certain" or rng.random() < 0.7:
        settings |= {"y": case.y, "noise": case.noise, "alpha": alpha}
    chosen = kdpp.select(case.kernel, case.X, M, "best", rng, delta=IMPROBABLE, candidates=[case.Z[:M]], **settings)
    if chosen.bound is None:
        raise Refused("no bound is proved")
    own = replace(case, Z=chosen.Z)
    if "y" in settings:
        return None, truths.divergence(own, chosen.jitter, alpha), float(chosen.bound)
    return None, truths.residual_trace(own, chosen.jitter), float(chosen.bound)


def rate_of_rows(case: Instance, rng: np.random.Generator) -> Statement:
    """E Tr(K − Q) of one draw for given rows, and what follows by Markov's inequality at α ≤ ½ (R-lem3, R-thm1)."""
    N, delta, alpha = len(case.X), float(10.0 ** rng.uniform(-6.0, -0.1)), float(10.0 ** rng.uniform(-6.0, -0.31))
    M = int(rng.integers(1, N))
    settings: dict[str, Any] = {"inputs": Empirical(case.X), "noise": case.noise, "delta": delta}
    settings["rigor"] = one_of(["auto", "auto", "sharp"], rng)
    stated, term = rate(case.kernel, N, M, alpha, **settings), one_of(["expected_trace", "markov"], rng)

    def truth() -> Any:
        symmetric = [abs(each) for each in truths.covariances(case.kernel, case.X, case.X).charpoly()][::-1]
        trace, beta = (M + 1) * symmetric[M + 1] / symmetric[M], 1 - arb(alpha)
        if term == "expected_trace":
            return trace
        d = trace / ((N - M) * arb(case.noise))
        w = alpha * d / (1 + beta * d)
        return (N - M) / arb(delta) * (alpha / beta * (1 + beta * d).log() + w - (1 + w).log()) / 2

    return None, truths.narrow(truth), float(stated.terms[term])


def _order(rng: np.random.Generator) -> float:
    return one_of(
        [1.0, 1.0, 0.5, float(10.0 ** rng.uniform(-6.0, 0.0)), 1.0 - float(10.0 ** rng.uniform(-9.0, -1.0))], rng
    )


def _jitter(case: Instance, rng: np.random.Generator) -> float:
    """The least sound jitter as it was computed, 0, or one that an imported model states."""
    wanted: Any = one_of(["auto", 0.0, 1e-10 * case.kernel.max_variance], rng)
    return float(whiten(case.kernel, case.X, case.Z, jitter=wanted).jitter)


def _least_jitter(case: Instance) -> float:
    return float(whiten(case.kernel, case.X, case.Z, jitter="auto").jitter)
