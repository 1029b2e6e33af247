"""Public callables of both packages with right arguments: the table of the gate for arrays, and what it leaves out.

A record that a function returns is made by the library alone, and pages and figures are drawn from its own numbers:
their constructors are not called.  Nor are the methods by which a kernel, a likelihood or a feature map is extended:
they get arrays that the library has made.
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

import fitting
from gpbounds import Gaussian, Sampler, Uniform, audit, kernels, likelihoods, losses, lowrank, vecchia
from gpbounds.divergences import collapsed_posterior, full_posterior
from gpbounds.kdpp import expected_residual
from gpbounds.lowrank import leverage_density
from gpbounds.pacbayes import HyperGrid, Split
from gpbounds.renyi import from_sklearn
from robustness.odd_arguments import Call
from tests import test_array_gate as gate

X, Y, Z, SE = gate.X, gate.Y, gate.Z, gate.SE
MADE = ("about", "levels", "model")
"""Arguments of the table that stand as functions which make them."""
DRAWN = ("gpbounds.plotting", "gpbounds.pages", "gpbounds.linalg", "gpbounds.rows.shuffle_to")


def _normal(N: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((N, 1))


@cache
def _subject() -> audit.Subject:
    return audit.subject(SE, X, Y, Z, noise=0.5)


@cache
def _latent() -> audit.LatentSubject:
    return gate._latent_subject()


@cache
def _bound() -> Any:
    from gpbounds import rate

    return rate(SE, 9, 4, 1.0, inputs=Gaussian(), noise=0.5)


@cache
def _folder() -> Path:
    """A folder with a table and a model, until this process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    place = Path(folder.name)
    (place / "rows.csv").write_text("a,b\n0.5,1.0\n1.5,2.0\n", encoding="utf-8")
    from_sklearn(_regressor()).save(place / "model.json")
    return place


@cache
def _regressor() -> GaussianProcessRegressor:
    return GaussianProcessRegressor(optimizer=None).fit(X, Y)


def functions() -> dict[str, list[Mapping[str, Any]]]:
    """Right arguments of functions and constructors that the gate's table leaves out."""
    held = audit.HeldOut(X, Y, Y, np.ones(len(Y)))
    factor = vecchia.factor(SE, X, noise=0.5, blocks=vecchia.near(SE, X, block=2, neighbours=2, rng=0))
    return {
        "gpbounds.spectrum": [{"kernel": SE, "inputs": Gaussian()}],
        "gpbounds.Sampler": [{"draw": _normal}],
        "gpbounds.audit.compare": [{"about": _subject(), "held": held}],
        "gpbounds.audit.enough": [{"about": _subject()}],
        "gpbounds.audit.claimed_evidence": [{"about": _subject(), "value": -9.0}],
        "gpbounds.audit.causes": [
            {
                "about": _subject(),
                "evidence": audit.claimed_evidence(_subject(), -9.0),
                "predictions": audit.claimed_predictions(_subject(), X, Y, np.ones(len(Y))),
            },
        ],
        "gpbounds.audit.elbo_of": [
            {"about": _latent(), "posterior": audit.best_law(_latent(), Z[:2]).posterior},
        ],
        "gpbounds.audit.event_bounds": [{"divergence": _bound()}],
        "gpbounds.audit.hyperparameters": [{"about": _subject()}],
        "gpbounds.audit.latent_enough": [{"about": _latent()}],
        "gpbounds.audit.rows_to_test": [{"n": 9}],
        "gpbounds.kernels.Constant": [{}],
        "gpbounds.kernels.White": [{}],
        "gpbounds.kernels.Sum": [{"k1": SE, "k2": SE}],
        "gpbounds.kernels.Product": [{"k1": SE, "k2": SE}],
        "gpbounds.kernels.OnColumns": [{"kernel": SE, "columns": (0,)}],
        "gpbounds.kernels.separated": [{"kernel": SE}],
        "gpbounds.likelihoods.from_dict": [{"record": {"name": "poisson", "link": "exp"}}],
        "gpbounds.likelihoods.Bernoulli": [{}],
        "gpbounds.likelihoods.Gaussian": [{"noise": 0.5}],
        "gpbounds.likelihoods.Poisson": [{}],
        "gpbounds.likelihoods.StudentT": [{"df": 4.0, "scale": 0.5}],
        "gpbounds.losses.from_dict": [{"record": {"name": "band", "epsilon": 0.5}}],
        "gpbounds.losses.Band": [{"epsilon": 0.5}],
        "gpbounds.losses.Exponential": [{"epsilon": 0.5}],
        "gpbounds.losses.Interval": [{"low": -1.0, "high": 1.0}],
        "gpbounds.losses.Squared": [{"epsilon": 0.5}],
        "gpbounds.losses.Relative": [{"epsilon": 0.5}],
        "gpbounds.lowrank.FourierFeatures": [{"kernel": SE, "rank": 4, "rng": 0}],
        "gpbounds.lowrank.mercer_rank": [{"kernel": SE, "N": 9, "target": 0.5, "inputs": Gaussian(), "noise": 0.5}],
        "gpbounds.pacbayes.coverage_rank": [{"n": 99, "level": 0.5, "delta": 0.1}],
        "gpbounds.pacbayes.Charge": [{"choice": "kernel", "count": 3}],
        "gpbounds.pacbayes.Exact": [{"noise": 0.5}],
        "gpbounds.pacbayes.HyperGrid": [{}],
        "gpbounds.pacbayes.MeanGrid": [{"kind": "constant", "edge": 3.0, "steps": 10}],
        "gpbounds.pacbayes.Scaling": [{}],
        "gpbounds.pacbayes.Split": [{}],
        "gpbounds.renyi.direction_factor": [{"alpha": 0.5}],
        "gpbounds.renyi.from_sklearn": [{"model": _regressor()}],
        "gpbounds.renyi.imported_model": [{"path": str(_folder() / "model.json")}],
        "gpbounds.rows.read_table": [{"path": str(_folder() / "rows.csv")}],
        "gpbounds.rows.is_elsewhere": [{"X": X}],
        "gpbounds.vecchia.log_det_error": [{"U": factor, "variance": 2.0, "entry": 1e-16, "noise": 0.5}],
    }


def methods() -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Public methods by the name of their class, an object, and right arguments."""
    counts = {"y": gate.COUNTS, "m": gate.MEANS, "v": gate.SPREADS}
    real = {"y": gate.MEANS, "m": gate.MEANS, "v": gate.SPREADS}
    labels = {"y": np.array([0.0, 1.0, 1.0]), "m": gate.MEANS, "v": gate.SPREADS}
    for kernel in (
        SE,
        kernels.Matern(0.5),
        kernels.Linear(),
        kernels.Periodic(),
        kernels.RationalQuadratic(),
        kernels.Constant(),
        SE + kernels.Linear(),
        SE.on([0]),
    ):
        yield "__call__", kernel, {"X1": X, "X2": Z}
        yield "diag", kernel, {"X": X}
        yield "on", kernel, {"columns": (0,)}
        yield "with_log_parameters", kernel, {"values": np.zeros(len(kernel.log_parameters))}
    for law in (Gaussian(), Uniform(), Sampler(_normal)):
        yield "sample", law, {"N": 5, "rng": 0}
        if not isinstance(law, Sampler):
            yield "marginal", law, {"columns": (0,)}
    for model, row in (
        (likelihoods.Gaussian(0.5), real),
        (likelihoods.StudentT(4.0, 0.5), real),
        (likelihoods.Poisson(), counts),
        (likelihoods.Bernoulli(), labels),
    ):
        yield from _of_likelihood(model, row)
    for loss in (losses.Band(0.5), losses.Squared(0.5), losses.Exponential(0.5), losses.Relative(0.5), losses.Sign()):
        row = real | {"y": np.array([-1.0, 1.0, 1.0])} if isinstance(loss, losses.Sign | losses.Relative) else real
        yield "expectation", loss, row
        yield "value", loss, {"y": row["y"], "f": row["m"]}
        yield "allowance", loss, {**row, "mean_error": 1e-12, "variance_error": 1e-12}
    yield from _of_posteriors()
    yield from _of_features()
    yield from _of_grids()


def _of_likelihood(model: Any, row: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    at = {"y": row["y"], "f": row["m"]}
    for name in ("density", "log_density", "derivatives", "density_derivatives", "parameter_derivatives"):
        yield name, model, at
    for name in ("expected_log_density", "log_expected_density", "predictive_cdf"):
        yield name, model, row
    yield "log_expected_power", model, {**row, "power": 0.5}
    yield "predictive_mean", model, {"m": row["m"], "v": row["v"]}
    yield "predictive_quantile", model, {"p": np.array([0.2, 0.5, 0.9]), "m": row["m"], "v": row["v"]}
    yield "derivative_range", model, {"y": row["y"]}
    yield "checked_targets", model, {"y": row["y"]}
    yield "with_log_parameters", model, {"values": np.zeros(len(model.log_parameters))}


def _of_posteriors() -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    sparse = collapsed_posterior(SE, X, Y, Z, noise=0.5, power=0.0)
    yield "predict", sparse, {"X": X}
    yield "joint", sparse, {"X": X}
    yield "predict", full_posterior(SE, X, Y, noise=0.5), {"X": X}
    yield "best", _subject(), {"Z": Z}
    residual = expected_residual(gate.VALUES, 2, noise=0.5)
    yield "omega_above", residual, {"a": 1.0}
    yield "quadratic", residual, {"squares": gate.VALUES}
    density = leverage_density(np.array([8.0]), 4.0)
    for name in ("density", "log_density", "weights"):
        yield name, density, {"eta": np.array([[0.5], [1.0]])}
    yield "sample", density, {"m": 5, "rng": 0}


def _of_features() -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    fourier = lowrank.FourierFeatures(SE, 4, 0)
    mercer = lowrank.MercerFeatures(SE, 3, inputs=Gaussian())
    for features in (fourier, mercer, lowrank.HilbertFeatures(SE, 3, 1.5, half_width=8.0)):
        yield "fit", features, {"X": X}
        yield "__call__", features, {"X": X}
    yield "residual_diagonal", mercer, {"X": X}
    through = lowrank.ThroughBasis(SE, X, X, noise=0.5)
    yield "kl", through, {"features": fourier}
    yield "of_features", through, {"features": fourier}
    given = lowrank.ThroughBasisGiven(through, Y)
    yield "evidence_gap", given, {"features": fourier}
    yield "predictive_kl", given, {"features": fourier}


def _of_grids() -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    grid = HyperGrid()
    yield "ard", HyperGrid, {"dim": 2}
    yield "shared", HyperGrid, {}
    yield "at", grid, {"indices": np.array([3, 4])}
    yield "locate", grid, {"theta": (1.0, 1.0)}
    yield "round", grid, {"theta": (0.5, 0.5)}
    yield "certified", Split(), {"N": 10}
    yield "prior", Split(), {"N": 10}


def calls(package: str = "gpbounds", *, only: str = "") -> Iterator[Call]:
    """All public callables of a package whose names contain ``only``, with right arguments and their defaults."""
    table = {name: doors for name, doors in gate.DOORS.items() if not name.startswith(DRAWN)}
    for name, doors in ({**table, **functions()} if package == "gpbounds" else table).items():
        if name.startswith(f"{package}.") and only in name:
            home, _, leaf = name.rpartition(".")
            function = getattr(importlib.import_module(home), leaf)
            for given in doors:
                made = {key: value() if key in MADE and callable(value) else value for key, value in given.items()}
                yield _with_defaults(name, function, made)
    if package == "gpbounds":
        for leaf, of, given in methods():
            kind = of if isinstance(of, type) else type(of)
            name = f"{kind.__module__}.{kind.__qualname__}.{leaf}"
            if only in name:
                yield _with_defaults(name, getattr(of, leaf), given)
    else:
        yield from (call for call in estimators() if only in call.name)


def _with_defaults(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> Call:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind in named and p.default is not p.empty}
    positional = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    if positional:
        function = partial(_by_position, function, tuple(p.name for p in parameters if p.name in positional))
    without = frozenset(name for name, default in defaults.items() if default is None)
    return Call(name, function, {**defaults, **given}, without)


def _by_position(function: Callable[..., Any], names: tuple[str, ...], **arguments: Any) -> Any:
    return function(*(arguments.pop(name) for name in names), **arguments)


def estimators() -> Iterator[Call]:
    """Estimators of `fitting`: their parameters, by fits, and the methods that take rows."""
    for name in gate.ESTIMATORS:
        few = {"max_iter": 2} if "max_iter" in inspect.signature(getattr(fitting, name)).parameters else {}
        right = {**gate._made(name).get_params(deep=False), **few}
        given = {p.name for p in inspect.signature(getattr(fitting, name)).parameters.values() if p.default is None}
        yield Call(f"fitting.{name}", partial(_fitted, name), right, frozenset(given))
        for method, given, labels in gate._methods(name):
            if (name, method) == ("VariationalGPClassifier", "log_evidence_bounds"):
                continue  # there are none for labels, and it refuses every call
            for make in gate._models(name, method):
                call = partial(_method, make, method)
                yield _with_defaults_of(f"fitting.{name}.{method}", getattr(make(), method), call, {**given, **labels})


def _with_defaults_of(name: str, signed: Callable[..., Any], function: Callable[..., Any], given: Any) -> Call:
    full = _with_defaults(name, signed, given)
    return Call(name, function, full.arguments, full.without)


def _fitted(name: str, **parameters: Any) -> Any:
    return getattr(fitting, name)(**parameters).fit(X, gate._targets(name)).predict(X)


def _method(make: Callable[[], Any], method: str, **arguments: Any) -> Any:
    return getattr(make(), method)(**arguments)


def untried() -> list[str]:
    """Public functions of gpbounds, and classes that check their arguments, of which no call stands here."""
    tried = {call.name for call in calls()}
    names = {}
    for path in sorted((Path(__file__).parents[2] / "gpbounds").rglob("__init__.py")):
        module = ".".join(path.parent.relative_to(Path(__file__).parents[2]).parts)
        if module.startswith((*DRAWN, "gpbounds.cli", "gpbounds.reference")):
            continue
        rooms = importlib.import_module(module)
        for name in getattr(rooms, "__all__", ()):
            each = getattr(rooms, name)
            if inspect.isfunction(each):
                names.setdefault(each, f"{module}.{name}")
    return sorted(name for name in names.values() if name not in tried and not name.startswith(DRAWN))


WORDS = ("a word", "its digits")
RIGHT: dict[tuple[str, str], tuple[str, ...]] = {
    ("*", "rng"): ("None", "10^400"),  # any whole number is a seed, and None is one that nobody knows
    ("*", "jitter"): ("3",),
    ("*", "random_state"): ("None", "10^400"),
    ("*", "checkpoint"): ("a word",),
    ("*", "tol"): ("None",),
    ("*", "record"): ("a dict",),  # whose fields the error names
    ("*", "X"): ("a word",),  # a path of rows, of which the error names what is missing
    ("gpbounds.Gaussian", "cov"): ("None",),
    ("gpbounds.at_unit_noise", "y"): ("None",),
    ("gpbounds.Sampler", "draw"): ("a function",),
    ("gpbounds.Sampler", "name"): ("a word",),
    ("gpbounds.divergences.whitened_posterior", "prior_mean"): ("a function",),  # called when somebody predicts
    ("gpbounds.rows.source", "tell"): ("a function",),
    ("fitting.VariationalGPClassifier.fit", "y"): ("strings", "dates"),  # labels of any kind
    ("fitting.audit", "name"): WORDS,
    ("fitting.examine", "name"): WORDS,
    ("fitting.LowRankGP.kl_bound_of", "y"): ("*",),  # which is read of rows by partitions alone
    ("fitting.plan", "name"): WORDS,
    ("fitting.plan", "method"): ("list of it",),
    ("fitting.training.train_adam", "label"): WORDS,
    ("fitting.training.train_adam", "save"): ("a function",),
    ("fitting.training.train_lbfgs", "label"): WORDS,
    ("fitting.training.train_lbfgs", "save"): ("a function",),
    ("gpbounds.kdpp.select", "candidates"): ("ragged",),  # sets of one and of two points
    ("gpbounds.kdpp.loewner", "V"): ("no columns",),
    ("gpbounds.inducing_points", "y"): ("None",),
    ("gpbounds.lowrank.mercer_kl", "delta"): ("None",),
    ("gpbounds.lowrank.mercer_rank", "delta"): ("None",),
    ("gpbounds.pacbayes.Charge", "choice"): WORDS,
    ("gpbounds.pacbayes.HyperGrid", "names"): WORDS,
    ("gpbounds.rate", "y_norm2"): ("None",),
    ("gpbounds.rows.is_elsewhere", "X"): ("*",),  # it asks what a value is, and takes any
}
"""Kinds of odd values that are right there, by the callable and the argument (either may be "*")."""


def allowed(name: str, argument: str, kind: str) -> bool:
    """Whether a value of this kind is right for an argument."""
    places = ((name, argument), ("*", argument), (name, "*"))
    return any({kind, "*"} & set(RIGHT.get(place, ())) for place in places)


ENDS = re.compile(r"1e150|1e-310|largest doubles|2\^62|shifted|4\.94e-324|1e-300|1e\+300|1\.7e\+308")
"""Kinds of values at the ends of the range of doubles."""


def known(wrong: str) -> bool:
    """Whether a fault, as the script prints it, is one of those that `UNSETTLED` lists."""
    name, argument, kind, _ = wrong.split(" | ", 3)
    return bool(ENDS.fullmatch(kind)) and any(name.endswith(each) for each in UNSETTLED.get(argument, ()))


UNSETTLED: dict[str, tuple[str, ...]] = {"noise": ("lowrank.predictive_kl",)}
"""Functions, by argument, in which numbers at the ends of the range of doubles overflow with a warning or an error; of
`predictive_kl` at a noise variance of 1e300 the ends are 0 and infinity, and terms are NaN."""
