"""The certificate of a fitted GP from the rows of its training: its posterior with the kernel moved to a grid."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitting.estimators import PACGP, ExactGP, RenyiGP, SparseGP, SparsePACGP
from fitting.estimators.declared import charges_of, grid_of, log_choices, scalings_of
from fitting.estimators.kinds import Forms, OfRowNoise, sparse_forms, whitened_forms
from fitting.estimators.procedure import issue
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import FamilyLaw
from fitting.objectives.objective import Member, Objective, objective
from fitting.objectives.unit_noise import at_rows
from fitting.rows.data import Held
from fitting.study.predicted import by_position
from fitting.study.terms import Predictions
from gpbounds.arrays import Float, host
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.linalg import Jitter
from gpbounds.losses import Loss
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, Charge, DeclaredMean, Exact, HyperGrid, Scaling, bound
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.declarations import for_loss
from gpbounds.pacbayes.certificate.rows import Arrays, Partitions, Raw, Scaled
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.row_noise import at_unit_noise
from gpbounds.validation import positive, scalar

KINDS = (ExactGP, SparseGP, RenyiGP, PACGP, SparsePACGP)

CLOSE = 1e-9
"""Largest relative difference between the scaled data and the data on which the model was trained."""

_SIMILAR = 1e-5
"""For rows in partitions: largest relative difference between the means of the model's q and of q given these rows.

Other partitions round the sums differently, and nearly dependent features magnify this."""

OTHERS = (
    "expected the data that the model was trained on, after scaling; got others. Q is a function of its training data. "
    "If they were scaled before, pass the raw data and scaling=(inputs, outputs)"
)


def gibbs_certificates(
    model: Any,
    rows: Raw,
    losses: Sequence[Loss],
    *,
    delta: float,
    grid: HyperGrid | None,
    scaling: Any,
    mean: DeclaredMean | None,
    charges: Sequence[Charge],
    nonrigorous: bool,
    split: Split | None = None,
) -> list[tuple[Certificate, Predictions | None]]:
    """Certificates on the Gibbs risk of the posterior of a fitted model from the rows of its training; and predictions.

    Arguments are those of `fitting.certify`.  With ``split``, the certified rows among ``rows`` are those of training.
    """
    supported(model)
    _one_output(model)
    all_rows, rows = rows, rows if split is None else rows.certified(split)
    inputs, outputs = _units(model, scaling, nonrigorous)
    mean = _declared_mean(model, mean)
    for each in losses:
        for_loss(mean, each)
    _same(model, rows, inputs, outputs, mean)
    chosen = grid_of(getattr(model, "grid_", None) if grid is None else grid, model.kernel_)
    grid_point = chosen.round(priors.hyperparameters(model.kernel_))
    if grid_point.clipped:
        warnings.warn(
            f"Outside the grid and moved to its edge: {', '.join(grid_point.clipped)}. The certified posterior "
            "differs from the model's; train within the grid (`limits`), or fix a wider grid before the data are seen.",
            UserWarning,
            stacklevel=4,
        )
    kernel = priors.with_hyperparameters(model.kernel_, grid_point)
    all_charges = (*_charged(model, losses), *charges)
    failure_probability = scalar(positive, "delta", delta)
    forms, jitter = _forms(model, kernel, rows, inputs, outputs, mean)
    penalty = log_choices(chosen, all_charges, (inputs, outputs), mean)
    certificates = []
    for each in losses:
        certified = rows.enclose(forms(jitter), kernel, inputs, outputs, each, mean)
        unrounded = float(
            bound(
                min(certified.risk, 1.0),
                certified.kl,
                rows.shape[0],
                delta=min(failure_probability, 1.0),
                log_prior_penalty=penalty,
            )
        )
        certificate = issue(
            all_rows,
            forms,
            jitter,
            unrounded,
            kernel,
            grid=chosen,
            loss=each,
            delta=delta,
            inputs=inputs,
            outputs=outputs,
            mean=mean,
            charges=all_charges,
            nonrigorous=nonrigorous,
            split=split,
        )
        certificates.append((certificate, _predictions(model, rows, inputs, outputs)))
    return certificates


def _predictions(model: Any, rows: Raw, inputs: Scaling, outputs: Scaling) -> Predictions | None:
    """The model's latent predictions at its rows, computed when a figure asks for them; None for rows in partitions."""
    if not isinstance(rows, Arrays):
        return None
    predicts_raw = isinstance(model, PACGP | SparsePACGP) or model.normalize_y

    def predictions() -> tuple[Float, Float, Float]:
        with by_position():
            mean, std = model.predict(rows.X if predicts_raw else inputs.apply(rows.X), return_std=True)
        if predicts_raw:
            return rows.y, mean, std
        shift, scale = np.ravel(outputs.shift)[0], np.ravel(outputs.scale)[0]
        return rows.y, shift + scale * mean, scale * std

    return predictions


def _declared_mean(model: Any, mean: DeclaredMean | None) -> DeclaredMean | None:
    """The prior's mean with its origin; refuses one that was trained on the rows, or is not the model's."""
    if isinstance(model, PACGP | SparsePACGP):
        declared: DeclaredMean | None = model.certificate_.mean
        if mean is not None and mean != declared:
            raise ValueError(f"mean: expected None, as the model has declared its own, {declared!r}, got {mean!r}")
        return declared
    if model.mean_ is not None and not isinstance(model.mean, LinearMean):
        raise ValueError(
            f"model: expected one whose prior does not depend on these rows, got mean={model.mean!r}, which was "
            "trained on them: train with mean='zero', or with a LinearMean from other rows and declare it here, or "
            "train a PACGP with a MeanGrid, which is charged"
        )
    if mean is not None and not isinstance(mean, DeclaredMean):
        raise ValueError(f"mean: expected a gpbounds.pacbayes.DeclaredMean or None, got {mean!r}")
    if (None if mean is None else mean.function) != model.mean_:
        raise ValueError(
            f"mean: expected the declaration of the model's prior mean, {model.mean_!r}, got {mean!r}: pass "
            "gpbounds.pacbayes.DeclaredMean with the same coefficients and their origin"
        )
    return mean


def _forms(
    model: Any, kernel: Kernel, rows: Raw, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None
) -> tuple[Forms, float]:
    """Q at the rounded hyperparameters, and the jitter with which Kuu factorises."""
    if model._row_noise is not None:
        return _of_row_noise(model, kernel, rows, inputs, outputs, mean)
    noise = float(model.noise_)
    if isinstance(model, ExactGP | PACGP):
        return lambda jitter: Exact(noise), 0.0
    Z, q = model.inducing_, model.posterior_.q
    if isinstance(q, FactorLaw):
        return whitened_forms(Z, q), model.jitter_
    member = model._member()
    posterior: Any = _objective(rows, member, inputs, outputs, mean).posterior(kernel, noise, Z)
    jitter = max(posterior.jitter, model.jitter_)
    if member.is_diagonal:
        return sparse_forms(Z, noise, member), jitter
    # A Rényi posterior depends on all of K − Q, and no power of its diagonal gives the same q: store q itself.
    if jitter > posterior.jitter:
        posterior = _objective(rows, member, inputs, outputs, mean, jitter).posterior(kernel, noise, Z)
    return whitened_forms(Z, posterior.q), jitter


def _of_row_noise(
    model: Any, kernel: Kernel, rows: Raw, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None
) -> tuple[Forms, float]:
    """Q of a model whose rows have a noise each, by its law of the inducing variables, and the first jitter."""
    if not isinstance(rows, Arrays):
        raise ValueError("X: expected arrays for a model with a noise per row, got rows that are read by partitions")
    noise = model._row_noise * float(getattr(model, "beta", 1.0))
    unit = at_unit_noise(kernel, *Scaled(inputs, outputs, mean).apply(rows.X, rows.y), noise)
    Z = None if isinstance(model, ExactGP | PACGP) else model.inducing_
    kind, point = OfRowNoise(model._member(), unit, model.noise_), at_rows(kernel, noise, Z)
    return kind.forms(point), max(model.jitter_, kind.least_jitter(point))


def _objective(
    rows: Raw, member: Member, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None, jitter: Jitter = "auto"
) -> Any:
    """The objective of ``member`` at the scaled rows, with the targets y − m(X) for the prior's mean m."""
    if isinstance(rows, Partitions):
        N, D = rows.shape
        held = Held(rows.scaled(inputs, outputs, mean), N, D, 1, True, np.zeros(1), np.ones(1), jitter)
        return Objective(held, FamilyLaw(member), Evidence())
    assert isinstance(rows, Arrays)
    return objective(*Scaled(inputs, outputs, mean).apply(rows.X, rows.y), member, jitter=jitter)


def supported(model: Any) -> None:
    """Refuse models whose Q is not the law of f that their rows give."""
    if not isinstance(model, KINDS):
        names = ", ".join(kind.__name__ for kind in KINDS)
        raise ValueError(
            f"model: expected one of {names}, got {type(model).__name__}: for others method='held-out' or 'best' makes "
            "a certificate from rows that the model has not seen"
        )
    if getattr(model, "prior", "grid") == "data":
        raise ValueError(
            "model: expected prior='grid' for method='pac-bayes', got 'data': the certificate of its fit, from rows "
            "that its prior has not seen, is model.certificate_"
        )
    if isinstance(model, SparseGP) and model.method == "pic":
        raise ValueError(
            "model: expected another method than 'pic': its prediction at x depends on the data of x's block, not "
            "only on the inducing variables, so that their KL is not that of this Q. Use 'fitc'"
        )


def _one_output(model: Any) -> None:
    if model.y_train_.ndim == 2 and model.y_train_.shape[1] != 1:
        raise ValueError(
            f"model: expected one output, got {model.y_train_.shape[1]}: train one model for each output, each with "
            "a share of δ"
        )


def _units(model: Any, scaling: Any, nonrigorous: bool) -> tuple[Scaling, Scaling]:
    """How the raw data were scaled for training."""
    as_given = isinstance(scaling, str) and scaling == "as given"
    if not as_given:
        return scalings_of(scaling, nonrigorous)
    if isinstance(model, PACGP | SparsePACGP):
        return scalings_of((model.inputs_, model.outputs_), nonrigorous)
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    if not model.normalize_y:
        return Scaling(), Scaling()
    if not nonrigorous:
        raise ValueError(
            "model: expected one trained on targets in units fixed before the data were seen, got normalize_y=True: "
            f"the mean {shift:.6g} and the scale {scale:.6g} come from these very targets, prior and loss depend on "
            "them, and no bound follows (P-45). Train with normalize_y=False on targets scaled with other data, "
            "declare the origin of these constants with scaling=(Scaling(), Scaling(origin, shift, scale)), or pass "
            "nonrigorous=True for a record that says that it guarantees nothing"
        )
    return Scaling(), Scaling("same data", shift, scale)


def _same(model: Any, rows: Raw, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None) -> None:
    """Refuse data other than the training data, of which Q is a function."""
    if isinstance(rows, Partitions) or len(model.X_train_) == 0:
        _same_law(model, rows, inputs, outputs, mean)
        return
    assert isinstance(rows, Arrays)
    subtracted = mean if isinstance(model, PACGP | SparsePACGP) else None  # y_train_ of other models contains it
    X, y = Scaled(inputs, outputs, subtracted).apply(rows.X, rows.y)
    for name, passed, trained in (
        ("X", X, host(model.X_train_)),
        ("y", y, host(model.y_train_).reshape(-1)),
    ):
        size = max(float(np.abs(trained).max(initial=0.0)), math.ulp(0.0))
        if passed.shape != trained.shape or not bool((np.abs(passed - trained) <= CLOSE * size).all()):
            raise ValueError(f"{name}: {OTHERS}")


def _same_law(model: Any, rows: Raw, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None) -> None:
    """`_same` without arrays of the rows: refuse rows if q given them differs from the model's q."""
    q = getattr(model.posterior_, "q", None)
    if q is None:
        raise ValueError(
            f"X: expected arrays for {type(model).__name__}, which needs all rows in memory, got rows that are read by "
            "partitions"
        )
    if rows.shape[1] != model.n_features_in_:
        raise ValueError(f"X: {OTHERS}")
    if isinstance(q, FactorLaw):  # a free Q is no function of the data
        return
    noise = float(model.noise_) * float(getattr(model, "beta", 1.0))
    again = _objective(rows, model._member(), inputs, outputs, mean, model.jitter_).posterior(
        model.kernel_, noise, model.inducing_
    )
    trained = host(q.mean)
    if not float(np.abs(again.q.mean - trained).max()) <= _SIMILAR * float(np.abs(trained).max()):
        raise ValueError(f"X, y: {OTHERS}")


def _charged(model: Any, losses: Sequence[Loss]) -> tuple[Charge, ...]:
    """The charge for these ε, or for the list of ε of the model's training if that is longer and includes them."""
    trained_losses = tuple(c.loss for c in getattr(model, "certificates_", ()))
    listed = (
        trained_losses
        if len(trained_losses) > len(losses) and all(each in trained_losses for each in losses)
        else losses
    )
    return charges_of(listed)
