"""A risk certificate for any model of `fitting`, however it was trained."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators import PACGP, ExactGP, RenyiGP, SparseGP, SparsePACGP
from fitting.estimators.declared import charges_of, grid_of, log_choices, losses_of, scalings_of
from fitting.estimators.kinds import Forms, sparse_forms, whitened_forms
from fitting.estimators.procedure import issue
from fitting.family import objective
from gpbounds.arrays import Float, host
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.losses import Loss
from gpbounds.pacbayes import Charge, Exact, HyperGrid, Scaling, bound
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.evaluation import enclose
from gpbounds.pacbayes.certificate.fingerprint import as_data
from gpbounds.validation import positive, scalar

KINDS = (ExactGP, SparseGP, RenyiGP, PACGP, SparsePACGP)

CLOSE = 1e-9
"""How far, relatively, the scaled data may be from those that the model was trained on."""


def certify(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | Loss = "band",
    epsilon: Any = 0.6,
    delta: float = 0.01,
    grid: HyperGrid | None = None,
    scaling: Any = "as given",
    charges: Iterable[Charge] = (),
    nonrigorous: bool = False,
) -> Any:
    """Certificate on the Gibbs risk of the posterior of a fitted model, from the data it was trained on.

    With probability ≥ 1 − δ, R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + Σ ln(charges) + ln(ξ(N)/δ))/N), rounded up.

    Claims P-14, P-44, P-45, P-47, P-49.  The kernel's hyperparameters are moved to the nearest member of the grid and Q
    is made again there, with the noise and the inducing inputs that were trained: predictions change by as little as
    the grid is fine.  Q, however it came about, costs only its KL; what is charged is Θ, several ε, and what
    ``scaling`` and ``charges`` say was chosen from a list.  So VFE, FITC, the exact GP and models trained by a bound
    can be compared; hypotheses and what is declared as in `fitting.PACGP`.

    Parameters
    ----------
    model : ExactGP, SparseGP, RenyiGP, PACGP or SparsePACGP
        Fitted, with one output.  PIC is refused: a prediction depends on the data of its block, not on q(u) alone.
    X, y : arrays (N, D), (N,)
        The raw data it was trained on, float64.
    loss, epsilon, delta : as in `fitting.PACGP`
        ε in the units of the scaled targets.  Several ε: several certificates of this one Q, ln E charged.  One ε out
        of several that a model was trained for is charged like all of them.
    grid : HyperGrid, optional
        None: that of the model, or ln θ from −6 to 6 in steps of 0.01.
    scaling : "as given", a Scaling, or a pair (inputs, outputs)
        How the raw data became what the model was trained on.  "as given": what the model itself did.
        ``normalize_y=True`` took constants from the same data, and is refused; a pair whose second member has the same
        constants, y_mean_ and y_scale_, and says where they came from, is not.
    charges : sequence of Charge
        Other choices from lists made in advance: ln 2 for the better of two kernel families.
    nonrigorous : bool
        Let constants from the same data pass; the certificate says in its first line that it is none.

    Returns
    -------
    Certificate, or a tuple of them where ``epsilon`` is a sequence

    Raises
    ------
    ValueError
        for other models, data or units than those of the training, and as `Certificate.issue`.

    Warns
    -----
    UserWarning
        where a hyperparameter lies outside the grid and is moved to its edge.

    >>> from fitting import ExactGP
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> found = certify(ExactGP().fit(X, y), X, y, epsilon=0.5, delta=0.05)
    >>> found.check(X, y).confirmed, found.bound < 0.5
    (True, True)
    """
    _supported(model)
    raw_X, raw_y = as_data(X, y)
    losses = losses_of(loss, epsilon)
    inputs, outputs = _units(model, scaling, nonrigorous)
    points, targets = inputs.apply(raw_X), outputs.apply(raw_y)
    _same(model, points, targets)
    chosen = grid_of(getattr(model, "grid_", None) if grid is None else grid, model.kernel_)
    grid_point = chosen.round(priors.hyperparameters(model.kernel_))
    if grid_point.clipped:
        warnings.warn(
            f"Outside the grid and moved to its edge: {', '.join(grid_point.clipped)}. The certified posterior "
            "differs from the model's; train within the grid (`limits`), or fix a wider grid before the data are seen.",
            UserWarning,
            stacklevel=2,
        )
    kernel = priors.with_hyperparameters(model.kernel_, grid_point)
    declared_charges = tuple(charges)
    if not all(isinstance(charge, Charge) for charge in declared_charges):
        raise ValueError(f"charges: expected a sequence of gpbounds.pacbayes.Charge, got {charges!r}")
    all_charges = (*_charged(model, losses), *declared_charges)
    failure_probability = scalar(positive, "delta", delta)
    forms, jitter = _forms(model, kernel, points, targets)
    penalty = log_choices(chosen, all_charges, (inputs, outputs))
    certificates = []
    for each in losses:
        certified = enclose(forms(jitter), kernel, points, targets, each)
        unrounded = float(
            bound(
                min(certified.risk, 1.0),
                certified.kl,
                targets.size,
                delta=min(failure_probability, 1.0),
                log_prior_penalty=penalty,
            )
        )
        certificate = issue(
            raw_X,
            raw_y,
            forms,
            jitter,
            unrounded,
            kernel,
            grid=chosen,
            loss=each,
            delta=delta,
            inputs=inputs,
            outputs=outputs,
            charges=all_charges,
            nonrigorous=nonrigorous,
        )
        certificates.append(certificate)
    return tuple(certificates) if np.ndim(epsilon) else certificates[0]


def _forms(model: Any, kernel: Kernel, X: Float, y: Float) -> tuple[Forms, float]:
    """Q at the rounded hyperparameters, and the jitter that Kuu needs."""
    noise = float(model.noise_)
    if isinstance(model, ExactGP | PACGP):
        return lambda jitter: Exact(noise), 0.0
    Z, q = model.inducing_, model.posterior_.q
    if isinstance(q, FactorLaw):
        return whitened_forms(Z, q), model.jitter_
    member = model._member()
    posterior: Any = objective(X, y, member).posterior(kernel, noise, Z)
    jitter = max(posterior.jitter, model.jitter_)
    if member.is_diagonal:
        return sparse_forms(Z, noise, member), jitter
    # All of K − Q shapes a Rényi posterior: no power of its diagonal gives the same q, which is written as it is.
    if jitter > posterior.jitter:
        posterior = objective(X, y, member, jitter=jitter).posterior(kernel, noise, Z)
    return whitened_forms(Z, posterior.q), jitter


def _supported(model: Any) -> None:
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, KINDS):
        names = ", ".join(kind.__name__ for kind in KINDS)
        raise ValueError(f"model: expected one of {names}, got {type(model).__name__}")
    check_is_fitted(model, "posterior_")
    if isinstance(model, SparseGP) and model.method == "pic":
        raise ValueError(
            "model: expected another method than 'pic': its prediction at x depends on the data of x's block, not "
            "on the inducing variables alone, and the KL of such a Q from the prior is not theirs. Use 'fitc'"
        )
    if model.y_train_.ndim == 2 and model.y_train_.shape[1] != 1:
        raise ValueError(
            f"model: expected one output, got {model.y_train_.shape[1]}: train one for each, and give each a share of δ"
        )


def _units(model: Any, scaling: Any, nonrigorous: bool) -> tuple[Scaling, Scaling]:
    """How raw data become those of the training."""
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
            "them, and no bound follows (P-45). Train with normalize_y=False on targets scaled with other data, say "
            "with scaling=(Scaling(), Scaling(origin, shift, scale)) where these constants came from, or pass "
            "nonrigorous=True for a record that calls itself none"
        )
    return Scaling(), Scaling("same data", shift, scale)


def _same(model: Any, X: Float, y: Float) -> None:
    """Q is made from these data: they must be those of the training."""
    for name, passed, trained in (("X", X, host(model.X_train_)), ("y", y, host(model.y_train_).reshape(-1))):
        size = max(float(np.abs(trained).max(initial=0.0)), math.ulp(0.0))
        if passed.shape != trained.shape or not bool((np.abs(passed - trained) <= CLOSE * size).all()):
            raise ValueError(
                f"{name}: expected the data that the model was trained on, after scaling; got others. Q is a function "
                "of its training data. Were they scaled before? Then pass the raw data and scaling=(inputs, outputs)"
            )


def _charged(model: Any, losses: tuple[Loss, ...]) -> tuple[Charge, ...]:
    """ln E of these ε, or of those that the model was trained for, the larger list where they meet."""
    trained_losses = tuple(c.loss for c in getattr(model, "certificates_", ()))
    listed = (
        trained_losses
        if len(trained_losses) > len(losses) and all(each in trained_losses for each in losses)
        else losses
    )
    return charges_of(listed)
