"""A fitted estimator in one file: arguments, results of training, the data, the posterior."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fitting.archive import one_line, packed, read_archive, unpacked, write_archive
from fitting.estimators.remarks import Remark
from fitting.features import FeatureKernel
from fitting.features.base import TrainedMap
from fitting.features.stored import UnknownClass, from_plain, joined, parted, to_plain
from fitting.iterative.posterior import IterativePosterior
from fitting.objectives.unit_noise import AtUnitNoise, at_rows, in_callers_terms
from fitting.posterior import BlockPosterior, FeaturePosterior, InducingPosterior, Posterior, RowNoisePosterior
from fitting.starts.starts import own_kernel
from fitting.training.run import read_run, write_run
from gpbounds.arrays import host, namespace, place
from gpbounds.bound import Bound
from gpbounds.files import regular
from gpbounds.iterative import Probes
from gpbounds.kernels import Kernel, Sum, White, separated
from gpbounds.kernels.plain import KERNEL, kernel_from_plain, kernel_to_plain
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.likelihoods import LIKELIHOODS, Likelihood
from gpbounds.linalg import Cholesky
from gpbounds.losses import LOSSES, Loss
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, DeclaredMean, HyperGrid, MeanGrid, Scaling
from gpbounds.pacbayes.certificate.sealed import FORMAT
from gpbounds.records import Fields, Format, Slot, many, plain, read_json
from gpbounds.renyi.models import KIND as IMPORTED
from gpbounds.row_noise import noise_of_rows
from gpbounds.rows.encoding import Encoding
from gpbounds.whitening import Inducing

# Changes of the estimators' arguments, so that files and checkpoints of earlier versions stay readable.

FORMER = {"posterior": "form", "relaxation": "objective"}
"""Former name of each renamed argument."""

_PRESENT = {name: {former: present for present, former in FORMER.items()} for name in ("PACGP", "SparsePACGP")}
"""Present name of each former one, by class."""

FREED = {"tol": 1e-9}
"""Arguments that a continuation could not change once, with the value that the fingerprints of all checkpoints hold."""

UNWRITTEN: dict[str, Any] = {
    "lengthscales": "auto",
    "prior": "grid",
    "share": 0.5,
    "order": "random",
    "structure": None,
    "scheme": "variational",
}
"""Arguments that were added later still: a file holds them where they have another value."""

ADDED_TO_ALL: dict[str, Any] = {"mean": "zero", **UNWRITTEN}
"""Arguments that were added to every class, with the values that leave training as it was before."""

_DRAWS = {"draws": 10, "delta": 0.05}
ADDED: dict[str, dict[str, Any]] = {
    "LowRankGP": {"batch_size": None},
    "RenyiGP": _DRAWS,
    "SparseGP": {**_DRAWS, "beta": 1.0},
    "SparsePACGP": {"fewer": False},
}
"""Arguments that were added, by class, with the values that leave training as it was before."""

FILLED: dict[str, dict[str, Any]] = {
    "LowRankGP": {"rank": 100},
    "RenyiGP": {"max_inducing": 1000},
    "SparseGP": {"max_inducing": 1000},
}
"""Arguments whose default is None now, by class, with the former default, which fingerprints hold."""


def _without_ignored(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a file, less those that earlier versions took and ignored and that are an error now.

    >>> _without_ignored("LowRankGP", {"features": "fourier", "rank": 4, "order": "best"})
    {'features': 'fourier', 'rank': 4, 'order': 'degree'}
    """
    if kind != "LowRankGP":
        return settings
    features = settings.get("features")
    changed: dict[str, Any] = {}
    if features != "mercer":
        changed["order"] = "degree"
    if not isinstance(features, str) and settings.get("rank") == 100:
        changed["rank"] = None
    return settings | changed


# Posteriors as arrays, written and read without rounding.


def _posterior_to_arrays(posterior: Posterior) -> dict[str, Any]:
    """The arrays of a posterior; none for an exact one by a Cholesky factor, which reading computes again.

    Inducing points: L, with G, the factor of I + G and w, or for a free q with μ and C.  Features: these instead of L.
    An exact posterior by iterations: its weights and the error of its mean.
    """
    if isinstance(posterior, FeaturePosterior):
        return _features_to_arrays(posterior)
    if isinstance(posterior, IterativePosterior):
        values = {"weights": posterior.weights, "mean_error": np.float64(posterior.mean_error)}
        return {f"posterior/{name}": host(value) for name, value in values.items()}
    if isinstance(posterior, RowNoisePosterior):
        return _posterior_to_arrays(posterior.unit)
    if not isinstance(posterior, InducingPosterior):
        return {}
    points, q = posterior.inducing, posterior.q
    values = {"L": points.chol.L, "jitter": points.chol.jitter}
    if isinstance(q, GramLaw):
        values |= {"G": q.G, "A": q.chol.L, "w": q.mean}
    else:
        values |= {"mean": q.mean[:, 0], "C": q.factor}
    return {f"posterior/{name}": host(value) for name, value in values.items()}


def _posterior_from_arrays(
    arrays: dict[str, Any], problem: Any, kernel: Kernel | None, noise: Any, Z: Any, own: Mapping[str, Any]
) -> Posterior:
    """The posterior of ``problem`` at (kernel, noise, Z), from the arrays of `_posterior_to_arrays` if there are any.

    ``own`` are the user's classes of features by name.  The arrays of rows with a noise each are those of unit noise.
    """
    if isinstance(problem, AtUnitNoise):
        assert kernel is not None
        point = at_rows(kernel, noise, Z)
        unit = problem.at(point)
        return in_callers_terms(_posterior_from_arrays(arrays, problem.unit, unit.kernel, 1.0, unit.Z, own), point)
    if "posterior/parameters" in arrays:
        return _features_from_arrays(arrays, problem.data, noise, own)
    if "posterior/weights" in arrays:
        assert kernel is not None
        X, weights, error = problem.data.X, arrays["posterior/weights"], float(arrays["posterior/mean_error"])
        return IterativePosterior(kernel, noise, problem.data.single, X, place(weights, namespace(X)), error)
    if "posterior/L" not in arrays:
        return problem.posterior(kernel, noise, Z)
    data = problem.data
    assert kernel is not None
    part = {name.partition("/")[2]: value for name, value in arrays.items() if name.startswith("posterior/")}
    jitter = float(part.pop("jitter"))
    part = {name: place(value, namespace(data.X)) for name, value in part.items()}
    points = Inducing(kernel, Z, Cholesky(part["L"], jitter))
    if "C" in part:
        return InducingPosterior(points, noise, FactorLaw(part["mean"][:, None], part["C"]), data.single)
    q = GramLaw(part["w"], part["G"], Cholesky(part["A"], 0.0))
    if problem.member.inside and problem.member.needs_blocks:
        assert data.parts is not None
        return BlockPosterior(points, noise, q, data.single, data.X, data.residuals, data.parts)
    return InducingPosterior(points, noise, q, data.single)


def _features_to_arrays(posterior: FeaturePosterior) -> dict[str, Any]:
    """The arrays of a posterior of features, and the JSON of their map as bytes.

    Raises
    ------
    ValueError
        for features that a user wrote, without methods that store them.
    """
    kernel, q = posterior.kernel, posterior.q
    tree, arrays = parted(to_plain(kernel.features), "posterior/features")
    arrays["posterior/features"] = packed(tree)
    assert isinstance(q, GramLaw)
    values = {"G": q.G, "A": q.chol.L, "w": q.mean, "parameters": kernel.parameters}
    return arrays | {f"posterior/{name}": host(value) for name, value in values.items()}


def _features_from_arrays(arrays: dict[str, Any], data: Any, noise: float, own: Mapping[str, Any]) -> FeaturePosterior:
    """The posterior, from the arrays of `_features_to_arrays`; ``own`` are the user's classes by name."""
    features = from_plain(joined(unpacked(arrays["posterior/features"]), arrays), own)
    xp = namespace(data.X)
    G, A, w = (place(arrays[f"posterior/{name}"], xp) for name in ("G", "A", "w"))
    kernel = FeatureKernel(features, arrays["posterior/parameters"])
    return FeaturePosterior(kernel, noise, GramLaw(w, G, Cholesky(A, 0.0)), data.single, int(data.X.shape[1]))


# A fitted estimator in one file: arguments, results of training, the data, the posterior.

KIND, VERSION = "model", 1
FOUND = (
    *("noise_", "objective_", "stop_reason_", "n_iter_", "jitter_", "gap_", "trained_with_", "beta_", "power_"),
    *("n_features_in_", "lengthscales_", "structure_"),
)
TEXTS = ("stop_reason_", "lengthscales_", "structure_")
"""Those of `FOUND` that are words; the others are numbers."""
_ARRAYS = (
    "history_",
    "inducing_",
    "y_mean_",
    "y_scale_",
    "X_train_",
    "y_train_",
    "block_centres_",
    "block_units_",
    "beta_path_",
    "sample_weight_",
)


def _scaling(value: Any) -> Any:
    return Scaling.from_dict(value) if isinstance(value, dict) else value


_OWN: dict[str, Any] = {"DeclaredMean": DeclaredMean, "MeanGrid": MeanGrid, "mean": LinearMean, "grid": HyperGrid}


def _with_white(kernel: Kernel) -> dict[str, Any]:
    smooth, white = separated(kernel)
    return {"smooth": kernel_to_plain(smooth), "white": white}


ARGUMENTS: dict[str, tuple[Any, Any, Any]] = {
    "kernel and noise": (Sum, lambda record: kernel_from_plain(record["smooth"]) + White(record["white"]), _with_white),
    "kernel": (Kernel, kernel_from_plain, kernel_to_plain),
    **{word: (kind, kind.from_dict, plain) for word, kind in _OWN.items()},
    "scaling": (Scaling, Scaling.from_dict, plain),
    "loss": (Loss, LOSSES.read, plain),
    "likelihood": (Likelihood, LIKELIHOODS.read, plain),
    "tuple": (tuple, lambda values: tuple(map(_scaling, values)), plain),
}
"""The class of an argument that is an object, how it is read and how it is written, by the word in the file."""


def _mean_to_plain(mean: Any) -> dict[str, Any]:
    single = isinstance(mean, LinearMean)
    return {"single": single, "functions": plain([mean] if single else mean)}


def _mean_from_plain(record: Any, where: str) -> Any:
    functions = tuple(map(LinearMean.from_dict, record["functions"]))
    return functions[0] if record["single"] else functions


RESULTS = Format(
    object,
    {
        name: slot._replace(attribute=f"{name}_", optional=True)
        for name, slot in {
            "mean": Slot(_mean_from_plain, _mean_to_plain),
            "likelihood": Slot(LIKELIHOODS.read),
            "classes": Slot(lambda classes, where: np.array(classes)),
            "unrounded_kernel": KERNEL,
            "evidence_bounds": many(Bound.from_dict),
            "probes": Slot(Probes.from_dict),
            "remarks": many(Remark.from_dict),
            "encoding": Slot(Encoding.from_dict),
            "inputs": Slot(Scaling.from_dict),
        }.items()
    },
)
"""The results of training that are objects; a file has those of its model and version."""


def _word(value: Any) -> str | None:
    """The word of `ARGUMENTS` for an argument that is an object; a sum without `White` is a kernel as others are."""
    words = [word for word, (kind, *_) in ARGUMENTS.items() if isinstance(value, kind)]
    if words[:1] == ["kernel and noise"] and not separated(value)[1]:
        words = words[1:]
    return words[0] if words else None


def write(path: str | os.PathLike[str], model: Any) -> None:
    """Save a fitted ``model``; a ``random_state`` other than a number is saved as None."""
    arrays = _posterior_to_arrays(model.posterior_)
    arrays |= {name: host(getattr(model, name)) for name in _ARRAYS if hasattr(model, name)}
    found = [name for name in FOUND if hasattr(model, name)]
    if model._row_noise is not None:
        found.remove("noise_")
        arrays["noise_"] = model.noise_
    arguments: dict[str, Any] = {}
    for name, value in (model.get_params(deep=False) | {"kernel": own_kernel(model.kernel)}).items():
        if name in UNWRITTEN and value == UNWRITTEN[name]:
            continue
        if name == "random_state" and not isinstance(value, int | np.integer):
            arguments[name] = None
        elif isinstance(value, os.PathLike):
            arguments[name] = os.fspath(value)
        elif value is None or isinstance(value, str | bool | int | float | np.generic):
            arguments[name] = plain(value)
        elif word := _word(value):
            arguments[name] = {word: ARGUMENTS[word][2](value)}
        elif name == "limits":
            arguments[name] = {"limits": {key: [float(low), float(high)] for key, (low, high) in value.items()}}
        elif name == "features":
            arguments[name], more = parted({"features": to_plain(value)}, "argument/features")
            arrays |= more
        else:
            arguments[name], arrays[f"argument/{name}"] = {"array": name}, host(value)
    about = {
        "kind": KIND,
        "version": VERSION,
        "class": type(model).__name__,
        "arguments": arguments,
        "kernel": None if isinstance(model.kernel_, FeatureKernel) else kernel_to_plain(model.kernel_),
        "found": {name: plain(getattr(model, name)) for name in found},
        "runs": [write_run(run, f"run/{i}/", arrays) for i, run in enumerate(model.runs_)],
        "certificates": plain(getattr(model, "certificates_", ())),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        **RESULTS.write(model),
    }
    if about["certificates"]:
        about.pop("inputs")  # the certificate has them
    if isinstance(bound := getattr(model, "bound_", None), Bound):  # a PAC-Bayes model has its bound_ in certificates
        about["bound"] = bound.to_dict()
    write_archive(path, about, arrays)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain values and the arrays that `write` wrote.

    Raises
    ------
    ValueError
        as `read_archive`; for plain values without the parts of a model; for a certificate, or a model of another
        library, with a word on where the model is.
    """
    _refuse_json(path)
    about, arrays = read_archive(path, KIND, VERSION)
    parts = {"class": str, "arguments": dict, "found": dict, "runs": list, "feature_names": list}
    for name, kind in parts.items():
        if not isinstance(about.get(name), kind):
            raise ValueError(f"path: expected a model with {name!r}, got one without it in {os.fspath(path)!r}")
    return about, arrays


def _refuse_json(path: str | os.PathLike[str]) -> None:
    """Say what a JSON file of gpbounds is, instead of a model that predicts."""
    regular(path)
    with open(path, "rb") as file:
        if not file.read(64).lstrip().startswith(b"{"):
            return
    name = os.fspath(path)
    try:
        record = read_json(path, "JSON")
    except ValueError:  # `read_archive` refuses it
        return
    if record.get("format") == FORMAT:
        own = Path(name)
        model = own.with_name(own.stem.replace("certificate", "model", 1) + ".npz")
        known = own.stem.startswith("certificate") and model.exists()
        where = f"its model is in {os.fspath(model)!r}" if known else "its model is in another file, .npz"
        raise ValueError(f"path: expected a model that save wrote (.npz), got a risk certificate in {name!r}: {where}")
    if str(record.get("kind")).startswith(IMPORTED):
        raise ValueError(
            f"path: expected a model that save wrote (.npz), got a model of another library in {name!r}: "
            "gpbounds.renyi.imported_model reads it, gpbounds audit audits it, and that library predicts with it"
        )


BROKEN = (KeyError, TypeError, AttributeError, IndexError, AssertionError, ArithmeticError, RecursionError, ValueError)
"""Errors that a model with parts of wrong kinds, sizes or names raises."""


@contextlib.contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn the errors of a broken model into one that names the file at ``path``; `UnknownClass` stays as it is."""
    try:
        yield
    except UnknownClass:
        raise
    except BROKEN as error:
        name, why = os.fspath(path), one_line(error)
        raise ValueError(f"path: expected a model that save wrote, got parts of none in {name!r} ({why})") from error


def check(model: Any) -> None:
    """Refuse values that are not numbers, arrays of wrong kinds or shapes, and a posterior that gives no prediction.

    Raises
    ------
    ValueError
        with the name of the part.
    """
    for name in TEXTS:
        if not isinstance(getattr(model, name, ""), str):
            raise ValueError(f"{name}: expected a text, got {getattr(model, name)!r}")
    for name in set(FOUND) - set(TEXTS):
        value = getattr(model, name, None)
        if name == "noise_" and isinstance(value, np.ndarray) and not model._one_noise:
            noise_of_rows(value, len(model.X_train_))
            continue
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name}: expected a number, got {value!r}")
    for name in _ARRAYS:
        array = getattr(model, name, None)
        if array is None:
            continue
        if array.dtype.kind not in "iuf" or (name != "history_" and not np.isfinite(array).all()):
            raise ValueError(f"{name}: expected finite numbers, got others")
    for name, needed in (("likelihood_", hasattr(model, "likelihood")), ("classes_", hasattr(model, "predict_proba"))):
        if needed and not hasattr(model, name):
            raise ValueError(f"{name}: expected in a {type(model).__name__}, got none")
    X, y, D = model.X_train_, model.y_train_, model.n_features_in_
    if not isinstance(D, int) or X.ndim != 2 or X.shape[1] != D or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(f"X_train_, y_train_: expected shapes (N, {D}) and (N,), got {X.shape} and {y.shape}")
    P = 1 if y.ndim == 1 else y.shape[1]
    if model.y_mean_.shape != (P,) or model.y_scale_.shape != (P,) or not (model.y_scale_ > 0.0).all():
        raise ValueError(f"y_mean_, y_scale_: expected {P} numbers each, scales > 0")
    features: Any = getattr(getattr(model.posterior_, "kernel", None), "features", None)
    is_trained = isinstance(features, TrainedMap)
    row = np.reshape(features.inside(D), (1, D)) if is_trained else model._inputs(np.zeros((1, D)))
    mean = host(model.posterior_.mean(place(row, model._module()), blocks=model._labels(row)))
    if not np.isfinite(mean).all() or mean.shape != (1, *y.shape[1:]):
        raise ValueError("its posterior gives no prediction")


def arguments(about: dict[str, Any], arrays: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the constructor; ``own`` are the user's classes of features by name."""
    settings: dict[str, Any] = {}
    for stored, value in about["arguments"].items():
        name = _PRESENT.get(about["class"], {}).get(stored, stored)
        if not isinstance(value, dict):
            settings[name] = value
            continue
        ((word, record),) = value.items()
        if word == "array":
            settings[name] = arrays[f"argument/{record}"]
        elif word == "features":
            settings[name] = from_plain(joined(record, arrays), own)
        elif word == "limits":
            settings[name] = {key: (low, high) for key, (low, high) in record.items()}
        else:
            settings[name] = ARGUMENTS[word][1](record)
    return _without_ignored(about["class"], settings)


def restore(model: Any, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Set the results of training, except the posterior."""
    for name, value in about["found"].items():
        if name not in FOUND:  # a file sets no other attribute
            raise ValueError(f"expected results named {', '.join(FOUND)}, got {name!r}")
        setattr(model, name, value)
    for name in (*_ARRAYS, "noise_"):
        if name in arrays:
            setattr(model, name, arrays[name])
    model.mean_, model.remarks_ = None, ()  # files of earlier versions have none
    for name, value in RESULTS.arguments(Fields(about)).items():
        setattr(model, name, value)
    if about["kernel"] is not None:  # features without a kernel are in the posterior
        model.kernel_ = kernel_from_plain(about["kernel"])
    if about.get("certificates"):
        model._certified(list(map(Certificate.from_dict, about["certificates"])))
    if "bound" in about:
        model.bound_ = Bound.from_dict(about["bound"])
    names = about["feature_names"]
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.runs_ = tuple(read_run(record, f"run/{i}/", arrays) for i, record in enumerate(about["runs"]))


def posterior(model: Any, arrays: dict[str, Any], own: Mapping[str, Any]) -> Posterior:
    """The stored posterior, on the device of the model; ``own`` are the user's classes of features by name."""
    problem = model._objective()
    if (mean := model._mean_of_targets()) is not None:
        problem = problem.about(mean)
    Z = place(model.inducing_, namespace(problem.data.X)) if hasattr(model, "inducing_") else None
    kernel, noise = getattr(model, "kernel_", None), model._model_noise if hasattr(model, "noise_") else 0.0
    found = _posterior_from_arrays(arrays, problem, kernel, noise, Z, own)
    model.kernel_ = found.kernel if kernel is None else kernel
    return found
