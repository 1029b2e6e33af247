"""Small seeded fits of every estimator, in memory, by partitions and resumed; objectives; training; scores."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fitting
from fitting import bounds, features, training
from gpbounds import SquaredExponential, audit, kernels, losses, pacbayes

from .data import content, npy, rows

NEW = np.linspace(-0.5, 6.5, 5)[:, None]
SCORES = ("objective_", "noise_", "beta_", "jitter_", "n_iter_", "stop_reason_", "bound_", "gap_", "remarks_", "mean_")


def estimators() -> dict[str, Callable[..., Any]]:
    """Every estimator with the settings that matter, each with few iterations."""
    few: dict[str, Any] = {"random_state": 0, "max_iter": 6}
    sparse = few | {"n_inducing": 6}
    band: dict[str, Any] = {"epsilon": 0.5, "delta": 0.05}
    return {
        "exact": partial(fitting.ExactGP, **few),
        "exact, matern": partial(fitting.ExactGP, kernels.Matern(1.5), mean="linear", normalize_y=True, **few),
        "exact, adam": partial(fitting.ExactGP, optimizer="adam", **few),
        "exact, iterative": partial(fitting.ExactGP, solver="iterative", **few),
        "exact, fixed": partial(fitting.ExactGP, optimizer=None, kernel=SquaredExponential(), noise=0.1),
        "exact, white": partial(fitting.ExactGP, SquaredExponential() + kernels.White(0.1), **few),
        "exact, limits": partial(fitting.ExactGP, fixed=("noise",), noise=0.1, limits={"variance": (0.1, 2.0)}, **few),
        **{f"sparse, {method}": partial(fitting.SparseGP, method, **sparse) for method in ("vfe", "dtc", "fitc")},
        "sparse, pep": partial(fitting.SparseGP, "pep", power=0.5, **sparse),
        "sparse, pic": partial(fitting.SparseGP, "pic", block_size=10, **sparse),
        "sparse, tempered": partial(fitting.SparseGP, "vfe", beta=0.5, **sparse),
        "sparse, adam": partial(fitting.SparseGP, "vfe", optimizer="adam", **sparse),
        "sparse, sum": partial(
            fitting.SparseGP, "vfe", kernels.Periodic(3.0) + kernels.Linear(), mean="constant", **sparse
        ),
        "sparse, best": partial(fitting.SparseGP, "vfe", inducing="best", **sparse),
        "sparse, restarts": partial(fitting.SparseGP, "vfe", n_restarts=1, **sparse),
        "sparse, enough": partial(fitting.SparseGP, "vfe", **few | {"n_inducing": "auto", "target_gap": 2.0}),
        "renyi": partial(fitting.RenyiGP, 0.5, **sparse),
        "renyi, iterative": partial(fitting.RenyiGP, 0.5, solver="iterative", **sparse),
        "lowrank, fourier": partial(fitting.LowRankGP, "fourier", 8, **few),
        "lowrank, mercer": partial(fitting.LowRankGP, "mercer", 8, **few),
        "lowrank, mlp": partial(fitting.LowRankGP, features.MLP((5,), d=2), **few),
        "lowrank, mixed": partial(fitting.LowRankGP, "fourier", 8, kernels.Periodic(3.0) + SquaredExponential(), **few),
        "lowrank, batches": partial(fitting.LowRankGP, "fourier", 8, optimizer="adam", batch_size=20, **few),
        "variational": partial(fitting.VariationalGP, **sparse),
        "variational, student": partial(fitting.VariationalGP, likelihood="student-t", objective="log-loss", **sparse),
        "variational, natgrad": partial(fitting.VariationalGP, optimizer="natgrad", **sparse),
        "variational, batches": partial(fitting.VariationalGP, optimizer="adam", batch_size=20, **sparse),
        "variational, ups": partial(
            fitting.VariationalGP, objective="log-loss", gradient="ups", optimizer="adam", **sparse
        ),
        "pac": partial(fitting.PACGP, **few, **band),
        "pac, squared": partial(fitting.PACGP, loss="squared", relaxation="pinsker", **few, **band),
        "sparse pac": partial(fitting.SparsePACGP, **sparse, **band),
        "sparse pac, vfe": partial(fitting.SparsePACGP, posterior="vfe", **sparse, **band),
        "sparse pac, free": partial(fitting.SparsePACGP, posterior="free", **sparse, **band),
    }


COUNTS: dict[str, dict[str, Any]] = {
    "poisson": {"likelihood": "poisson"},
    "softplus": {"likelihood": "poisson-softplus"},
}
LABELS: dict[str, dict[str, Any]] = {"probit": {}, "logit": {"likelihood": "logit"}, "power": {"objective": "power"}}
BY_PARTITIONS = (
    "sparse, vfe",
    "sparse, fitc",
    "renyi",
    "lowrank, fourier",
    "variational",
    "sparse pac",
    "variational, batches",
)
RESUMED = (*BY_PARTITIONS, "exact", "sparse, adam", "pac", "exact, iterative", "sparse pac, free")
SAVED = ("exact, matern", "sparse, vfe", "renyi", "lowrank, mercer", "variational, student", "pac", "sparse pac")


def calls() -> dict[str, Callable[[], Any]]:
    """All calls that train."""
    table, found = estimators(), {}
    for name, make in table.items():
        found[f"memory/{name}"] = lambda make=make: fitted(make().fit(*rows(60, seed=4)))
    for name in BY_PARTITIONS:
        found[f"partitions/{name}"] = partial(_partitioned, table[name])
    for name in RESUMED:
        found[f"resumed/{name}"] = partial(_resumed, table[name])
    for name in SAVED:
        found[f"saved/{name}"] = partial(_saved, table[name])
    for name, options in COUNTS.items():
        found[f"memory/variational, {name}"] = partial(_counts, options)
    for name, options in LABELS.items():
        found[f"memory/classifier, {name}"] = partial(_labels, options)
    found["two outputs"] = lambda: fitted(table["sparse, vfe"]().fit(rows(60)[0], np.stack([rows(60)[1]] * 2, axis=1)))
    found |= _more(table) | _refusals() | _objectives() | _training() | _scores() | _maps()
    return found


def fitted(model: Any, counts: bool = False) -> Any:
    """What a trained model says: parameters, objective, history, predictions."""
    found = {name: getattr(model, name) for name in SCORES if hasattr(model, name)}
    X = NEW
    found |= {"kernel": repr(model.kernel_), "theta": model.kernel_.log_parameters}
    found |= {name: np.asarray(getattr(model, name)) for name in ("history_", "inducing_") if hasattr(model, name)}
    if hasattr(model, "predict_proba"):
        return found | {"probability": model.predict_proba(X), "label": model.predict(X).tolist()}
    mean, std = (model.latent if counts else model.predict)(X, return_std=True)
    return found | {"mean": mean, "std": std, **({"counts": model.predict(X)} if counts else {})}


def _partitioned(make: Callable[..., Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return fitted(make().fit(*npy(folder, *rows(60, seed=4))))


def _resumed(make: Callable[..., Any]) -> Any:
    """A fit that is stopped after three iterations and goes on; with whether it equals a whole one."""
    X, y = rows(60, seed=4)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"checkpoint": f"{folder}/checkpoint", "tol": 0.0}
        first = fitted(make(**options | {"max_iter": 3}).fit(X, y))
        rest = make(**options).fit(X, y)
        whole = make(tol=0.0).fit(X, y)
        return {"first": first, "rest": fitted(rest), "equal": bool(rest.objective_ == whole.objective_)}


def _saved(make: Callable[..., Any]) -> Any:
    """The content of a model's file, and the predictions of what is read from it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model"
        make().fit(*rows(60, seed=4)).save(path)
        files = sorted(Path(folder).iterdir())
        return {"files": {file.name: content(file) for file in files}, "again": fitted(fitting.load(path))}


def _counts(options: dict[str, Any]) -> Any:
    X, y = rows(60, seed=4)
    model = fitting.VariationalGP(6, random_state=0, max_iter=6, kernel=SquaredExponential(), **options)
    return fitted(model.fit(X, np.round(np.exp(y)).astype(int)), counts=True)


def _labels(options: dict[str, Any]) -> Any:
    X, y = rows(60, seed=4)
    model = fitting.VariationalGPClassifier(6, random_state=0, max_iter=6, **options)
    return fitted(model.fit(X, np.where(y > 0.0, "up", "down")))


def _more(table: dict[str, Callable[..., Any]]) -> dict[str, Callable[[], Any]]:
    """What else a trained model is asked."""
    X, y = rows(60, seed=4)
    return {
        "more/log_evidence_bounds": lambda: {
            name: table[name]().fit(X, y).log_evidence_bounds()
            for name in ("exact", "sparse, vfe", "renyi", "sparse, sum")
        },
        "more/sample_y": lambda: table["sparse, vfe"]().fit(X, y).sample_y(NEW, 2, random_state=1),
        "more/covariance": lambda: table["exact"]().fit(X, y).predict(NEW, return_cov=True),
        "more/partial_fit": lambda: fitted(
            table["variational, batches"]().partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
        ),
        "more/sharpness": lambda: fitting.sharpness(table["renyi"]().fit(X, y), X, y, on="evidence"),
        "more/sharpness_of": lambda: fitting.sharpness_of(lambda x: (float(x @ x), 2.0 * x), np.ones(3), radius=0.1),
        **{
            f"more/certify, {name}": lambda name=name: _certified(table[name]().fit(X, y), X, y)
            for name in ("exact", "sparse, vfe", "variational")
        },
        **{
            f"more/certificate of {name}": lambda name=name: _checked(table[name]().fit(X, y).certificate_, X, y)
            for name in ("pac", "pac, squared", "sparse pac", "sparse pac, free")
        },
        "more/audit": lambda: _audited(table["sparse, vfe"]().fit(X, y), X, y),
        "more/study, audit": lambda: fitting.audit(table["sparse, vfe"]().fit(X[5:], y[5:]), X, y, most=30).to_dict(),
        "more/study, plan": lambda: fitting.plan(X, y, target=0.5, rows=30).to_dict(),
    }


def _certified(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    return _checked(fitting.certify(model, X, y, epsilon=0.5, delta=0.05), X, y)


def _checked(certificate: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        certificate.save(path)
        again = pacbayes.Certificate.load(path)
        return {"file": path.read_text(encoding="utf-8"), "report": str(again.check(X, y))}


def _audited(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The audit's parts, one after another, of a trained model."""
    about = audit.subject(model.kernel_, X, y, model.inducing_, noise=model.noise_)
    levels = audit.enough(about, target=0.5, most=30)
    mean, std = model.predict(NEW, return_std=True)
    risk = audit.held_out_risk(np.sin(NEW[:, 0]), mean, std**2, 0.5, delta=0.05)
    return {
        "enough": levels.to_dict(),
        "consequences": audit.consequences(about, levels, NEW).to_dict(),
        "places": audit.places(about, model.inducing_, NEW).to_dict(),
        "hyperparameters": audit.hyperparameters(about),
        "calibration": audit.calibration(np.sin(NEW[:, 0]), mean, std**2, covariance=np.diag(std**2)).to_dict(),
        "risk": risk.to_dict(),
        "findings": audit.Audit("a table", "a model", about, enough=levels, risk=risk).findings,
        "record": audit.Audit("a table", "a model", about, enough=levels).to_dict(),
    }


def _refusals() -> dict[str, Callable[[], Any]]:
    X, y = rows(20)
    wrong: dict[str, Callable[[], Any]] = {
        "method": lambda: fitting.SparseGP("other").fit(X, y),
        "optimizer": lambda: fitting.ExactGP(optimizer="other").fit(X, y),
        "solver": lambda: fitting.ExactGP(solver="other").fit(X, y),
        "kernel": lambda: fitting.ExactGP(kernel="se").fit(X, y),
        "noise": lambda: fitting.ExactGP(noise=-1.0).fit(X, y),
        "alpha": lambda: fitting.RenyiGP(2.0).fit(X, y),
        "power": lambda: fitting.SparseGP("pep", power=3.0).fit(X, y),
        "n_inducing": lambda: fitting.SparseGP(n_inducing=0).fit(X, y),
        "features": lambda: fitting.LowRankGP("other").fit(X, y),
        "likelihood": lambda: fitting.VariationalGP(likelihood="other").fit(X, y),
        "objective": lambda: fitting.VariationalGP(objective="other").fit(X, y),
        "labels": lambda: fitting.VariationalGPClassifier().fit(X, y),
        "counts": lambda: fitting.VariationalGP(likelihood="poisson").fit(X, y),
        "delta": lambda: fitting.PACGP(delta=2.0).fit(X, y),
        "loss": lambda: fitting.PACGP(loss="other").fit(X, y),
        "posterior": lambda: fitting.SparsePACGP(posterior="other").fit(X, y),
        "mean": lambda: fitting.ExactGP(mean="other").fit(X, y),
        "fixed": lambda: fitting.ExactGP(fixed=("other",)).fit(X, y),
        "device": lambda: fitting.ExactGP(device="other").fit(X, y),
        "cuda": lambda: fitting.ExactGP(device="cuda").fit(X, y),
        "finite": lambda: fitting.ExactGP().fit(X, y * np.nan),
        "rows": lambda: fitting.ExactGP().fit(X, y[:3]),
        "not fitted": lambda: fitting.ExactGP().predict(X),
        "no file": lambda: fitting.load("nothing"),
    }
    return {f"refused/{name}": call for name, call in wrong.items()}


def _evaluated(evaluation: Any) -> Any:
    gradient = evaluation.gradient
    names = ("kernel", "likelihood", "Z", "mean", "factor")
    return {"value": evaluation.value, **{name: getattr(gradient, name, None) for name in names}}


def _objectives() -> dict[str, Callable[[], Any]]:
    X, y = rows(60, seed=4)
    Z, se = np.linspace(0.2, 5.8, 6)[:, None], SquaredExponential(1.2, 0.8)
    found: dict[str, Callable[[], Any]] = {}
    ways: dict[str, dict[str, Any]] = {
        "vfe": {},
        "dtc": {},
        "fitc": {},
        "pep": {"power": 0.5},
        "pic": {"blocks": 10},
        "renyi": {"alpha": 0.5},
        "exact": {},
    }
    for method, options in ways.items():
        found[f"objective/{method}"] = lambda method=method, options=options: _evaluated(
            fitting.objective(X, y, method, **options).evaluate(se, 0.1, None if method == "exact" else Z)
        )
        found[f"objective/{method}, chunks"] = lambda method=method, options=options: _evaluated(
            fitting.objective(X, y, method, chunk=17, **options).evaluate(se, 0.1, None if method == "exact" else Z)
        )
    for likelihood in ("gaussian", "student-t", "probit", "logit", "poisson", "poisson-softplus"):
        for aim in ("elbo", "log-loss", "square-loss", "power", "pep"):
            found[f"variational_objective/{likelihood}/{aim}"] = partial(_variational, X, y, likelihood, aim)
    for name, loss in {"band": losses.Band(0.5), "squared": losses.Squared(0.5)}.items():
        found[f"risk_bound/{name}"] = lambda loss=loss: _risk(bounds.risk_bound(X, y, loss, delta=0.05), se, Z)
        found[f"free_bound/{name}"] = lambda loss=loss: _free(bounds.free_bound(X, y, loss, delta=0.05), se, Z)
    found["target"] = lambda: bounds.Target(losses.Band(0.6), 404, delta=0.01)(37.5, 42.0)
    found["member"] = lambda: [repr(fitting.member("renyi", alpha=0.25)), repr(fitting.member("pep", power=0.5))]
    found["packing"] = lambda: _packed(fitting.packing(se, 0.5, Z, fixed=["variance"], scale=2.0))
    return found


def _variational(X: np.ndarray, y: np.ndarray, likelihood: str, aim: str) -> Any:
    counts, labels = np.round(np.exp(y)), (y > 0.0) * 1
    targets = {"probit": labels, "logit": labels, "poisson": counts, "poisson-softplus": counts}.get(likelihood, y)
    J = fitting.variational_objective(X, targets, likelihood, aim, power=0.5)
    Z = np.linspace(0.2, 5.8, 6)[:, None]
    return _evaluated(J.evaluate(SquaredExponential(1.2, 0.8), J.likelihood, Z, np.sin(Z), 0.4 * np.eye(6)))


def _risk(B: Any, kernel: Any, Z: np.ndarray) -> Any:
    return {"terms": B.terms(kernel, 0.1, Z), "at": _evaluated(B.evaluate(kernel, 0.1, Z))}


def _free(B: Any, kernel: Any, Z: np.ndarray) -> Any:
    noise = () if hasattr(B, "start") else (1.0,)  # until November 2026 a bound of a free q took none
    return {
        "start": B.terms_at(B.complete(fitting.packing(kernel, 0.1, Z).start)),
        "at": _evaluated(B.evaluate(kernel, *noise, Z, np.sin(Z), 0.4 * np.eye(len(Z)))),
    }


def _packed(layout: Any) -> Any:
    return {"names": layout.names, "vector": layout.pack(layout.start), "bounds": layout.bounds}


def _training() -> dict[str, Callable[[], Any]]:
    def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(x @ x + np.cos(3.0 * x).sum()), 2.0 * x - 3.0 * np.sin(3.0 * x)

    start, box = np.array([3.0, -1.0]), [(-9.0, 9.0)] * 2

    def run(found: Any) -> Any:
        names = ("vector", "value", "values", "status", "reason", "evaluations", "failures")
        return {name: getattr(found, name) for name in names}

    return {
        "training/lbfgs": lambda: run(training.train_lbfgs(bowl, start, box, max_iter=50)),
        "training/adam": lambda: run(training.train_adam(bowl, start, box, max_iter=40)),
        "training/ending": lambda: run(
            training.train_adam(bowl, start, box, max_iter=900, ending=training.Ending(0.01))
        ),
        "training/tail": partial(training.tail_of, [-1.0 / t for t in range(1, 130)]),
    }


def _scores() -> dict[str, Callable[[], Any]]:
    from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson

    labels, probability = np.array([0, 0, 1, 1, 1]), np.array([0.2, 0.6, 0.3, 0.9, 0.8])
    m, v = np.array([-1.0, 0.2, 0.5, 1.0, 3.0]), np.array([0.1, 1.0, 0.3, 2.0, 0.5])
    laws: dict[str, tuple[Any, Any]] = {
        "gaussian": (Gaussian(0.3), m + 0.1),
        "probit": (Bernoulli("probit"), labels),
        "poisson": (Poisson("exp"), [0, 1, 2, 3, 40]),
    }
    found: dict[str, Callable[[], Any]] = {
        "calibration_error": partial(fitting.calibration_error, labels, probability, 4),
        "classification_error": partial(fitting.classification_error, labels, m),
        "mean_relative_error": partial(fitting.mean_relative_error, [0, 4], [0.5, 5.0]),
        "square_loss": partial(fitting.square_loss, m, v),
    }
    for name, (law, y) in laws.items():
        found[f"log_loss/{name}"] = partial(fitting.log_loss, law, y, m, v)
        found[f"coverage/{name}"] = partial(fitting.coverage, law, y, m, v)
        found[f"randomised_pit/{name}"] = partial(fitting.randomised_pit, law, y, m, v, 0)
    return {f"scores/{name}": call for name, call in found.items()}


def _maps() -> dict[str, Callable[[], Any]]:
    """Feature maps at their first parameters."""
    from sklearn.preprocessing import PolynomialFeatures

    X, y = rows(12)
    choices: dict[str, Any] = {
        "fourier": features.Fourier(6),
        "mercer": features.Mercer(6),
        "mlp": features.MLP((5,), d=2, pretraining=2),
    }

    def drawn(choice: Any) -> Any:
        made = choice.prepare(X, y[:, None], np.random.default_rng(0))
        return {name: getattr(made, name, None) for name in ("rank", "size", "start")}

    found: dict[str, Callable[[], Any]] = {
        f"maps/{name}": lambda choice=choice: drawn(choice) for name, choice in choices.items()
    }
    found["maps/from_sklearn"] = lambda: fitted(
        fitting.LowRankGP(features.from_sklearn(PolynomialFeatures(2)), max_iter=4, random_state=0).fit(
            *rows(60, seed=4)
        )
    )
    found["maps/mixed"] = lambda: (
        lambda kernel: features.MixedMap.drawn(kernel, 8, X, rng=0)(kernel.log_parameters, X)
    )(kernels.Periodic(1.0, 2.0) + kernels.RationalQuadratic(0.7))
    found["maps/from_jax"] = lambda: features.from_jax("not a function", {})
    found["maps/from_torch"] = lambda: features.from_torch("not a module")
    return found
