"""Write the example files of this folder: `python tests/stored/write.py`.

Run it on the version whose formats the files shall hold: `tests/test_stored_files.py` reads and rewrites every file
with the present code and compares the bytes.  Existing files are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fitting
from fitting.features import MLP, Fourier
from gpbounds import Matern, SquaredExponential, kernels, losses, pacbayes
from gpbounds.likelihoods import StudentT
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Charge, DeclaredMean, HyperGrid, MeanGrid, Scaling
from gpbounds.renyi import Model

FOLDER = Path(__file__).parent
RNG = np.random.default_rng(7)
X = RNG.uniform(-2.0, 2.0, (14, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.standard_normal(14)
BOTH = np.column_stack([Y, np.cos(X[:, 1])])
Z = np.array([[-1.0, 0.5], [0.1 + 0.2, -0.7], [1.2, 1.0 / 3.0]])
ARD = kernels.Matern(1.5, 0.7, [0.5, 1.5])
MANY = (
    kernels.RationalQuadratic(variance=0.8, lengthscale=[1.0, 2.0], shape=1.5).on([1, 0])
    + kernels.Constant(0.5) * kernels.Linear(0.3)
    + kernels.Polynomial(variance=0.2, offset=1.0, degree=2)
    + kernels.Periodic(variance=1.1, lengthscale=0.9, period=2.0).on([0])
    + SquaredExponential(1.0 / 3.0, [0.1, 0.3])
)
LINES = kernels.Periodic(2.0).on([0]) * kernels.Constant(0.5) + kernels.RationalQuadratic(0.8, 1.0, [1.0, 1.0])


def _named(kernel: Any) -> tuple[str, ...]:
    return tuple(kernels.plain.hyperparameters(kernel))


def certificates() -> dict[str, Any]:
    """Certificates: every posterior, loss, declaration and form of a kernel."""
    mean, half = np.sin(Z[:, 0]), np.array([[0.5, 0.0, 0.0], [0.1, 0.4, 0.0], [-0.2, 0.3, 0.6]])
    posteriors = {
        "exact": pacbayes.Exact(0.1),
        "sparse": pacbayes.Sparse(Z, 0.1, 0.5),
        "free": pacbayes.Free(Z, mean, half @ half.T + (half @ half.T).T, 1e-9),
        "whitened": pacbayes.Whitened(Z, mean, half),
    }
    ways: dict[str, dict[str, Any]] = {
        **{name: {"posterior": posterior} for name, posterior in posteriors.items()},
        "squared": {"loss": losses.Squared(0.5)},
        "exponential": {"loss": losses.Exponential(0.5)},
        "relative": {"loss": losses.Relative(0.4)},
        "interval": {"loss": losses.Interval(-0.3, 0.5)},
        "ard": {"kernel": ARD, "grid": HyperGrid.ard(2, -3.0, 3.0, 60)},
        "structure": {
            "kernel": MANY,
            "grid": HyperGrid(-3.0, 3.0, 60, _named(MANY)),
            "posterior": pacbayes.Sparse(Z, 0.1),
        },
        "declared": {
            "inputs": Scaling("disjoint split", [0.1, -0.2], [2.0, 3.0]),
            "outputs": Scaling("charged", 0.1, 1.5, count=4),
            "charges": [Charge("accuracies ε", 5), Charge("seeds", 3)],
            "mean": DeclaredMean("grid", 0.5, (-0.5, 1.0), edge=2.0, steps=4),
        },
        "same_data": {"outputs": Scaling("same data", Y.mean(), Y.std()), "nonrigorous": True},
    }
    updated = pacbayes.Updated(Z, mean, half, 0.5 * mean, half, 1e-9)
    one_point = HyperGrid((0.0, 0.0), (0.0, 0.0), (0, 0))
    from_rows = {"posterior": updated, "grid": one_point, "kernel": SquaredExponential(), "split": pacbayes.Split()}
    labels = {"loss": losses.Sign(), "classes": ("no", "yes"), "y": np.where(Y > 0.0, "yes", "no")}
    ways |= {"updated": from_rows, "vote": from_rows | labels | {"predictor": "mean"}}
    issued: dict[str, Any] = {}
    for name, way in ways.items():
        own = {"grid": HyperGrid.shared(-3.0, 3.0, 60), "loss": losses.Band(0.5), "delta": 0.05} | way
        posterior, kernel = (
            own.pop("posterior", posteriors["sparse"]),
            own.pop("kernel", SquaredExponential(0.73, 0.41)),
        )
        grid = own["grid"]
        at = grid.round(list(kernels.plain.hyperparameters(kernel).values())).theta
        rounded = kernels.plain.with_hyperparameters(kernel, at)
        issued[name] = pacbayes.Certificate.issue(X, own.pop("y", Y), posterior, rounded, **own)
    about: dict[str, Any] = {"predictor": "a line", "delta": 0.05}
    first = pacbayes.Split("as given", 0.5)
    held_out, coverage = pacbayes.HeldOutCertificate, pacbayes.CoverageCertificate
    issued["held_out"] = held_out.issue(X, Y, X[7:, 0], loss=losses.Band(0.5), split=first, **about)
    issued["mean_loss"] = held_out.issue(X, Y, X[:, 0], loss=losses.Squared(0.5), charges=[Charge("seeds", 2)], **about)
    issued["labels"] = held_out.issue(X, labels["y"], labels["y"], loss=None, classes=("no", "yes"), **about)
    issued["coverage"] = coverage.issue(X, Y, X[:, 0], np.ones(14), level=0.5, **about)
    return issued


def models() -> dict[str, tuple[Any, Any]]:
    """Estimators with few iterations, and their targets."""
    short: dict[str, Any] = {"max_iter": 3, "random_state": 0}
    pac: dict[str, Any] = {"delta": 0.05, **short}
    linear = MeanGrid("linear", edge=2.0, steps=8)
    limits = {"limits": {"noise": (1e-3, 1.0)}, "fixed": ("variance",)}
    labels = np.where(Y > 0.0, "yes", "no")
    return {
        "exact": (fitting.ExactGP(Matern(2.5, 1.0, [1.0, 1.0]), 0.1, normalize_y=True, **limits, **short), BOTH),
        "exact_mean": (fitting.ExactGP(mean=LinearMean(0.5, [1.0, -0.1]), **short), Y),
        "exact_untrained": (fitting.ExactGP(MANY, 0.1, optimizer=None), Y),
        "iterative": (
            fitting.ExactGP(SquaredExponential(), 0.1, solver="iterative", optimizer=None, random_state=0),
            Y,
        ),
        "sparse": (fitting.SparseGP("vfe", n_inducing=3, mean="linear", **short), BOTH),
        "sparse_adam": (fitting.SparseGP("fitc", inducing=Z, optimizer="adam", **short), Y),
        "sparse_best": (fitting.SparseGP("vfe", n_inducing=4, inducing="best", draws=2, **short), Y),
        "blocks": (fitting.SparseGP("pic", n_inducing=3, block_size=5, **short), Y),
        "renyi": (fitting.RenyiGP(0.3, n_inducing=3, max_iter=3, random_state=np.int64(3)), Y),
        "low_rank": (fitting.LowRankGP("fourier", 8, **short), Y),
        "mercer": (fitting.LowRankGP("mercer", 5, **short), Y),
        "mixed": (fitting.LowRankGP(rank=8, kernel=LINES, noise=0.1, **short), Y),
        "network": (fitting.LowRankGP(MLP((4,), d=2, then=Fourier(6), pretraining=3, batch_size=7), **short), Y),
        "variational": (fitting.VariationalGP(likelihood=StudentT(4.0, 0.5), n_inducing=3, **short), Y),
        "classifier": (fitting.VariationalGPClassifier(n_inducing=3, **short), labels),
        "pac": (fitting.PACGP((0.4, 0.8), kernel=SquaredExponential(), grid=HyperGrid.shared(-3.0, 3.0, 60), **pac), Y),
        "pac_mean": (fitting.PACGP(mean=linear, **pac), Y),
        "pac_declared": (fitting.PACGP(mean=DeclaredMean("fixed in advance", 0.5, (0.1, 0.2)), **pac), Y),
        "sparse_pac": (
            fitting.SparsePACGP(
                3,
                loss=losses.Interval(-0.1, 0.5),
                scaling=(Scaling("fixed in advance", [0.1, 0.0], 2.0), "as given"),
                **pac,
            ),
            Y,
        ),
    }


def imported() -> dict[str, Model]:
    """Models as `gpbounds.renyi.Model` saves them."""
    return {
        "points": Model(MANY, 1.0 / 7.0, Z, LinearMean(0.1, [1.0, 2.0])),
        "constant": Model(Matern(0.8, 1e-300, 0.1), 1e300, None, LinearMean(2.0)),
        "none": Model(SquaredExponential(), 1.0, Z[:1]),
    }


def checkpoints(path: Callable[[str], Path]) -> None:
    """Checkpoints of L-BFGS, Adam, mini-batches and several runs."""
    for name, model in {
        "lbfgs": fitting.SparseGP("vfe", n_inducing=3, start="scale", max_iter=3, random_state=0),
        "pilots": fitting.SparseGP("vfe", n_inducing=3, max_iter=3, random_state=0),
        "adam": fitting.SparseGP("vfe", n_inducing=3, optimizer="adam", max_iter=3, random_state=0),
        "batches": fitting.VariationalGP(n_inducing=3, optimizer="adam", batch_size=5, max_iter=3, random_state=0),
    }.items():
        if not path(name).exists():
            model.set_params(checkpoint=path(name)).fit(X, Y)


def main() -> None:
    """Write the files that are not there."""
    warnings.simplefilter("ignore")
    for name, record in certificates().items():
        _save(record, f"certificate_{name}.json")
    for name, record in imported().items():
        _save(record, f"imported_{name}.json")
    for name, (model, targets) in models().items():
        if not (FOLDER / f"model_{name}.npz").exists():
            _save(model.fit(X, targets), f"model_{name}.npz")
    checkpoints(lambda name: FOLDER / f"checkpoint_{name}.npz")


def _save(record: Any, name: str) -> None:
    if not (FOLDER / name).exists():
        record.save(FOLDER / name)


if __name__ == "__main__":
    main()
