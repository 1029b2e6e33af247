"""`rate` and `inducing_points` over kernels × laws of inputs × statements × rigor, with all refusals; spectra."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from words import spelled

import gpbounds
from gpbounds import kernels

from .data import rows

N = 24


def kernel_table() -> dict[str, Callable[[], Any]]:
    """Kernels by name, in one dimension unless the name says 2."""
    se, matern = kernels.SquaredExponential, kernels.Matern
    return {
        "se": lambda: se(1.3, 0.7),
        "se2": lambda: se(1.3, [0.7, 1.9]),
        "matern12": lambda: matern(0.5, 1.1, 0.8),
        "matern32": lambda: matern(1.5, 1.1, 0.8),
        "matern52": lambda: matern(2.5, 0.9, 1.2),
        "matern0.8": lambda: matern(0.8, 0.9, 1.2),
        "rq": lambda: kernels.RationalQuadratic(0.7, 1.2, 0.9),
        "periodic": lambda: kernels.Periodic(2.0, 1.1, 0.8),
        "constant": lambda: kernels.Constant(2.0),
        "linear": lambda: kernels.Linear(0.6),
        "polynomial": lambda: kernels.Polynomial(2, 0.6, 0.5),
        "sum": lambda: se(1.3, 0.7) + matern(1.5, 0.4, 0.3),
        "product": lambda: se(1.3, 0.7) * kernels.Linear(0.6),
        "white": lambda: se(1.3, 0.7) + kernels.White(0.1),
        "columns2": lambda: se(1.0, 0.7).on([0]) + matern(0.5).on([1]),
        "tensor2": lambda: se(1.0, 0.7).on([0]) * se(0.8, 1.5).on([1]),
    }


def laws(dim: int) -> dict[str, Callable[[], Any]]:
    """Laws of inputs by name."""
    return {
        "gaussian": lambda: gpbounds.Gaussian(1.2, dim=dim),
        "uniform": lambda: gpbounds.Uniform([0.0] * dim, [3.0] * dim),
        "empirical": lambda: gpbounds.Empirical(rows(N, dim)[0]),
        "sampler": lambda: gpbounds.Sampler(lambda size, rng: rng.exponential(1.0, (size, dim)), "exponential"),
    }


def statements(dim: int) -> dict[str, dict[str, Any]]:
    """What is asked: arguments of `rate` besides kernel, N, M, alpha and inputs."""
    y = rows(N, dim)[1]
    return {
        "prior": {},
        "printed": {"form": "printed"},
        "norm": {"y_norm2": 30.0},
        "norm printed": {"y_norm2": 30.0, "form": "printed"},
        "prior of 5": {"draws": 5},
        "norm before, of 5": {"draws": 5, "y_norm2": 30.0, "y_norm2_known": "before"},
        "norm after, of 5": {"draws": 5, "y_norm2": 30.0},
        "given": {"y": y, "draws": 5, "law": "kdpp"},
        "given, tilted": {"y": y, "draws": 5, "law": "tilted"},
        "given, certain": {"y": y, "draws": "certain"},
        "simulated": {"simulate": 39, "rng": 1},
    }


def calls() -> dict[str, Callable[[], Any]]:
    """All calls about rates."""
    return _grid() | _numbers() | _plans() | _refusals() | _spectra() | _inputs()


def _grid() -> dict[str, Callable[[], Any]]:
    found = {}
    for kernel, make in kernel_table().items():
        dim = 2 if kernel.endswith("2") and not kernel.startswith("matern") else 1
        for law, asked in itertools.product(laws(dim), statements(dim)):
            if (asked == "simulated" and law == "uniform") or (kernel == "matern0.8" and law == "gaussian"):
                continue  # of a rough spectrum that takes seconds, `_spectra` has one
            words = ("float", "sharp") if law != "sampler" else ("float",)
            if asked.startswith("given"):
                words = ("float", "proved", "sharp") if law == "empirical" else ("float",)
            found[f"{kernel}/{law}/{asked}"] = partial(_answers, make, law, dim, asked, words)
    return found


def _answers(make: Any, law: str, dim: int, asked: str, words: tuple[str, ...]) -> dict[str, Any]:
    """The bound, or the refusal, in each word for rigor."""
    from recording import outcome

    options = statements(dim)[asked]
    few = dict(options, simulate=39) if "simulate" in options else options

    def one(word: str) -> Any:
        return spelled(gpbounds.rate, make(), N, 4, 1.0, inputs=laws(dim)[law](), noise=0.2, rigor=word, **few)

    return {word: outcome(partial(one, word)) for word in words}


def _numbers() -> dict[str, Callable[[], Any]]:
    """Arrays, orders, directions, total variation, and sizes that are large."""
    se, rate = kernels.SquaredExponential(1.3, 0.7), gpbounds.rate
    y = np.stack([rows(N)[1], rows(N, seed=3)[1]], axis=1)
    data = gpbounds.Empirical(rows(N)[0])
    sizes = np.array([[1], [5], [20], [60], [200]])
    found = {
        "arrays": lambda word: spelled(rate, se, np.array([1e3, 1e6, 1e12]).astype(int), sizes, 0.7, rigor=word),
        "orders": lambda word: spelled(rate, se, 10_000, 30, np.array([1e-6, 0.25, 0.5, 1.0]), rigor=word),
        "tv": lambda word: spelled(rate, se, 10_000, 30, 1.0, tv=[0.0, 1e-9, 1e-3], y_norm2=1e4, rigor=word),
        "p||q": lambda word: spelled(rate, se, 10_000, 30, [0.3, 0.8], direction="p||q", rigor=word),
        "deltas": lambda word: spelled(rate, se, 10_000, 30, 1.0, delta=[1e-9, 0.05, 0.5], noise=1e-4, rigor=word),
        "two outputs": lambda word: spelled(rate, se, N, 9, [0.5, 1.0], inputs=data, y=y, draws=10, rigor=word),
        "tiny": lambda word: spelled(rate, se, N, 23, 1.0, inputs=data, y=y[:, 0], draws=10, rigor=word),
        "no noise": lambda word: spelled(rate, se, N, 9, 1.0, inputs=data, y=y[:, 0], draws=4, noise=1e-9, rigor=word),
    }
    given = ("two outputs", "tiny", "no noise")
    return {
        f"numbers/{name}/{word}": partial(call, word)
        for name, call in found.items()
        for word in ("float", "sharp", *(("proved",) if name in given else ()))
    }


def _plans() -> dict[str, Callable[[], Any]]:
    """`inducing_points`, for the same statements, on kernels whose spectra differ in kind."""
    found: dict[str, Callable[[], Any]] = {}
    table = kernel_table()
    for kernel, law in (("se", "uniform"), ("se", "empirical"), ("matern32", "uniform"), ("sum", "empirical")):
        for asked in statements(1):
            for word in ("float", "sharp"):
                found[f"plan/{kernel}/{law}/{asked}/{word}"] = partial(
                    _planned, table[kernel], law, asked, word, 0.5 if law == "empirical" else 0.1
                )
    se = kernels.SquaredExponential(1.3, 0.7)
    for target in (1e-12, 0.1, 1e3):
        found[f"plan/large N, target {target}"] = partial(gpbounds.inducing_points, se, 10**9, 1.0, target=target)
    found["plan/no M suffices"] = partial(gpbounds.inducing_points, kernels.Matern(0.5), 30, 1.0, target=1e-9)
    found["plan/proved"] = lambda: spelled(_given_plan, rigor="proved")
    return found


def _planned(make: Any, law: str, asked: str, word: str, target: float) -> Any:
    size = N if law == "empirical" else 60
    options = {"inputs": laws(1)[law](), "noise": 0.2, "target": target, **statements(1)[asked]}
    return _plan(spelled(gpbounds.inducing_points, make(), size, 1.0, rigor=word, **options))


def _given_plan(**options: Any) -> Any:
    X, y = rows(N)
    inputs = gpbounds.Empirical(X)
    return _plan(
        gpbounds.inducing_points(
            kernels.SquaredExponential(), N, 1.0, target=0.5, inputs=inputs, y=y, draws=10, **options
        )
    )


def _plan(plan: Any) -> Any:
    return {"record": plan.to_dict(), "bound": plan.bound, "before": plan.bound_before, "text": str(plan)}


def _refusals() -> dict[str, Callable[[], Any]]:
    """Arguments out of range, each with its sentence."""
    se = kernels.SquaredExponential()
    wrong: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "N": ((se, 1, 1, 1.0), {}),
        "N not whole": ((se, 10.5, 1, 1.0), {}),
        "M": ((se, 10, 10, 1.0), {}),
        "M zero": ((se, 10, 0, 1.0), {}),
        "alpha": ((se, 10, 5, 1.5), {}),
        "alpha zero": ((se, 10, 5, 0.0), {}),
        "noise": ((se, 10, 5, 1.0), {"noise": -1.0}),
        "delta": ((se, 10, 5, 1.0), {"delta": 1.0}),
        "form": ((se, 10, 5, 1.0), {"form": "other"}),
        "direction": ((se, 10, 5, 1.0), {"direction": "p||q"}),
        "direction word": ((se, 10, 5, 1.0), {"direction": "pq"}),
        "rigor": ((se, 10, 5, 1.0), {"rigor": "other"}),
        "law": ((se, 10, 5, 1.0), {"law": "kdpp"}),
        "law word": ((se, N, 5, 1.0), {"law": "other", "draws": 3, "inputs": gpbounds.Empirical(rows(N)[0])}),
        "known": ((se, 10, 5, 1.0), {"y_norm2_known": "before"}),
        "tv": ((se, 10, 5, 1.0), {"tv": 2.0}),
        "norm": ((se, 10, 5, 1.0), {"y_norm2": -1.0}),
        "draws": ((se, 10, 5, 1.0), {"draws": 0}),
        "draws word": ((se, N, 5, 1.0), {"draws": "all", "inputs": gpbounds.Empirical(rows(N)[0])}),
        "draws need rows": ((se, 10, 5, 1.0), {"draws": "certain"}),
        "y alone": ((se, N, 5, 1.0), {"y": rows(N)[1], "inputs": gpbounds.Empirical(rows(N)[0])}),
        "y short": ((se, N, 5, 1.0), {"y": [1.0], "draws": 3, "inputs": gpbounds.Empirical(rows(N)[0])}),
        "y simulated": ((se, N, 5, 1.0), {"y": rows(N)[1], "simulate": 39}),
        "certified": ((se, 10, 5, 1.0), {"certified": True}),
        "simulate": ((se, 10, 5, 1.0), {"simulate": 3}),
        "simulate, many N": ((se, [10, 20], 5, 1.0), {"simulate": 39}),
        "sampler": ((se, 10, 5, 1.0), {"inputs": laws(1)["sampler"]()}),
        "dim": ((kernels.SquaredExponential(1.0, [1.0, 2.0]), 10, 5, 1.0), {"inputs": gpbounds.Gaussian(dim=3)}),
        "rows": ((se, 10, 5, 1.0), {"inputs": gpbounds.Empirical(rows(N)[0])}),
        "not a kernel": (("se", 10, 5, 1.0), {}),
        "not a law": ((se, 10, 5, 1.0), {"inputs": "gaussian"}),
    }
    found: dict[str, Callable[[], Any]] = {
        f"refused/{name}": partial(gpbounds.rate, *args, **options) for name, (args, options) in wrong.items()
    }
    for name, options in (("target", {"target": -1.0}), ("alpha", {"target": 0.1, "alpha": 2.0})):
        found[f"refused/plan, {name}"] = partial(_refused_plan, options)
    return found


def _refused_plan(options: dict[str, Any]) -> Any:
    return gpbounds.inducing_points(kernels.SquaredExponential(), 10, **({"alpha": 1.0} | options))


def _spectra() -> dict[str, Callable[[], Any]]:
    found = {}
    for kernel, make in kernel_table().items():
        dim = 2 if kernel.endswith("2") and not kernel.startswith("matern") else 1
        for law, word in itertools.product(laws(dim), ("float", "sharp")):
            found[f"spectrum/{kernel}/{law}/{word}"] = partial(_spectrum, make, law, dim, word)
    correlated = partial(gpbounds.Gaussian, mean=[1.0, 0.0], cov=[[4.0, 1.0], [1.0, 1.0]])
    for word in ("float", "sharp"):
        found[f"spectrum/se2/correlated/{word}"] = lambda word=word: _read(
            spelled(gpbounds.spectrum, kernels.SquaredExponential(1.0, [0.7, 1.9]), inputs=correlated(), rigor=word)
        )
    return found


def _spectrum(make: Any, law: str, dim: int, word: str) -> Any:
    return _read(spelled(gpbounds.spectrum, make(), inputs=laws(dim)[law](), rigor=word))


def _read(spectrum: Any) -> Any:
    return {
        "eigenvalues": np.asarray(spectrum.eigenvalues(8)),
        "tail": np.asarray(spectrum.tail([0, 1, 5, 15])),
        "log_tail": np.asarray(spectrum.log_tail([0, 1, 5, 15])),
    }


def _inputs() -> dict[str, Callable[[], Any]]:
    law = partial(gpbounds.Gaussian, mean=[1.0, 0.0], cov=[[4.0, 1.0], [1.0, 1.0]])
    return {
        "inputs/gaussian": lambda: law().sample(20, np.random.default_rng(3)),
        "inputs/uniform": lambda: gpbounds.Uniform([0.0, 1.0], [1.0, 3.0]).sample(20, np.random.default_rng(3)),
        "inputs/marginal": lambda: repr(law().marginal([1])),
        "inputs/refused": lambda: gpbounds.Gaussian(-1.0),
        "inputs/refused box": lambda: gpbounds.Uniform(1.0, 0.0),
        "inputs/refused rows": lambda: gpbounds.Empirical([[np.nan]]),
    }
