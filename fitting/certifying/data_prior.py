"""Certificates whose prior is the law of a trained model, and whose rows are others than those of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.data_priors.prior_law import PriorLaw, of_law, one_point, priors_of, require_law
from fitting.data_priors.updates import Aim, Update, certified, engine_of
from fitting.estimators.base import GaussianProcess
from fitting.estimators.declared import log_choices
from fitting.estimators.pac import PacGaussianProcess
from gpbounds.arrays import Float
from gpbounds.kernels import Constant, Kernel
from gpbounds.likelihoods import Bernoulli, Gaussian, StudentT
from gpbounds.losses import Loss, Sign
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, Charge, DeclaredMean, HyperGrid, Scaling, Split
from gpbounds.pacbayes.certificate.rows import Arrays, Raw
from gpbounds.renyi import Model


@dataclass(frozen=True, eq=False)
class ModelPrior:
    """The law of f of a fitted model, in the units in which a loss is stated, as a certificate's prior.

    Attributes
    ----------
    kernel : Kernel
        On ``grid``.
    grid : HyperGrid
        One point.
    laws : tuple of PriorLaw
        The law of u, for one or several sets of inducing variables.
    mean : DeclaredMean or None
        The mean function, from the rows of the model.
    """

    kernel: Kernel
    grid: HyperGrid
    laws: tuple[PriorLaw, ...]
    mean: DeclaredMean | None


def prior_of(model: Any, certified: Raw | None = None, inputs: Scaling | None = None) -> ModelPrior:
    """The law of f of a fitted ``model``, after all of its training: kernel, Z, noise and u are numbers that define P.

    Hypothesis: nothing of the model depends on the certified rows; then P costs nothing (N-data-prior).  The kernel is
    moved by units of rounding to a member of a grid of one point.

    Parameters
    ----------
    model : estimator of `fitting`, or gpbounds.renyi.Model with q(u)
        With one output.  `ExactGP` and `PACGP`: at most 1500 rows, the certified ones included.  Not `LowRankGP`, whose
        features are no kernel of a certificate, nor PIC.
    certified : Raw
        The certified rows, for an exact GP: P is stated at all rows.
    inputs : Scaling
        How raw inputs were scaled for the model.

    Raises
    ------
    ValueError
        for models without such a law.
    """
    if isinstance(model, Model):
        return _of_imported(model)
    if not isinstance(model, GaussianProcess):
        raise ValueError(
            f"model: expected a Gaussian process of fitting, or a gpbounds.renyi.Model with its q(u), got "
            f"{type(model).__name__}: method='held-out' takes any model"
        )
    model._fitted()
    if len(model.y_mean_) != 1:
        raise ValueError(f"model: expected one output, got {len(model.y_mean_)}: train one model for each output")
    others: Float = np.zeros((0, model.n_features_in_))
    if isinstance(certified, Arrays):
        others = (inputs or Scaling()).apply(certified.X)
    require_law(model.posterior_)
    grid, kernel = one_point(model.kernel_)
    laws = priors_of(kernel, model.posterior_, others)
    mean = model.mean_[0] if isinstance(model.mean_, tuple) else model.mean_
    if isinstance(model, PacGaussianProcess) or not model.normalize_y:
        return ModelPrior(kernel, grid, laws, _declared(mean))
    # f = shift + scale·f': u = scale·u', L is scale times the former one, and v stays as it is
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    grid, kernel = one_point(_times(kernel, scale * scale))
    laws = tuple(replace(law, kernel=kernel, jitter=scale * scale * law.jitter) for law in laws)
    return ModelPrior(kernel, grid, laws, _declared(mean or LinearMean(), shift, scale))


def _times(kernel: Kernel, factor: float) -> Kernel:
    """``factor`` times the kernel."""
    own: Any = kernel
    if kernel.has_one_variance and hasattr(own, "variance"):
        return replace(own, variance=own.variance * factor)
    return Constant(factor) * kernel


def _declared(mean: LinearMean | None, shift: float = 0.0, scale: float = 1.0) -> DeclaredMean | None:
    """The mean function shift + scale·m of a prior, which comes from other rows."""
    if mean is None:
        return None
    slopes = () if mean.slopes is None else tuple(scale * np.asarray(mean.slopes))
    return DeclaredMean("disjoint split", shift + scale * mean.intercept, slopes)


def _of_imported(model: Model) -> ModelPrior:
    """The law of a model of another library."""
    if model.q is None or model.Z is None:
        raise ValueError(
            "model: expected one with the law q(u) that it was trained to, got one without: its posterior depends on "
            "rows that the model does not hold. Import an SVGP, or train SparseGP on these rows, or pass predictions "
            "with method='held-out'"
        )
    grid, kernel = one_point(model.kernel)
    q = model.q.posterior(kernel, model.Z)
    law = of_law(kernel, model.Z, q.mean, q.factor, model.q.jitter)
    return ModelPrior(kernel, grid, (law,), _declared(model.mean))


def _for_likelihood(model: Any, loss: Loss) -> None:
    """Refuse a loss for which the model's f is no prediction."""
    likelihood = getattr(model, "likelihood_", None)
    labels = isinstance(loss, Sign)
    if likelihood is not None and not isinstance(likelihood, Bernoulli if labels else Gaussian | StudentT):
        raise ValueError(
            f"loss: expected one in the units of f, got {loss!r} for a model with {likelihood!r}: Sign() is for labels "
            "and a Bernoulli likelihood, other losses for real numbers. method='held-out' certifies mean predictions"
        )
    if labels and getattr(model, "mean_", None) is not None:
        raise ValueError("model: expected mean='zero' for labels, whose loss depends on y·f, not on y − f alone")


def _with_labels(rows: Raw, classes: tuple[Any, ...]) -> tuple[Any, Any]:
    """X, and the labels that −1 and 1 stand for."""
    assert isinstance(rows, Arrays)
    return rows.X, [classes[int(sign > 0.0)] for sign in rows.y]


def data_prior(
    model: Any,
    rows: Raw,
    losses: Sequence[Loss],
    *,
    delta: float,
    inputs: Scaling | None = None,
    outputs: Scaling | None = None,
    mean: DeclaredMean | None = None,
    charges: Sequence[Charge] = (),
    split: Split | None = None,
    predictor: str = "gibbs",
    classes: tuple[Any, ...] | None = None,
    nonrigorous: bool = False,
    trained: bool = True,
) -> tuple[tuple[Certificate, Update], ...]:
    """For each loss the certificate of a Q that starts at the law P of a fitted model, and how Q was found.

    With probability ≥ 1 − δ over the n certified rows, for all Q: R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P) + Σ ln(charges) +
    ln(ξ(n)/δ))/n).

    Claims P-14, N-data-prior.  Q is the P that is updated by the certified rows with a free noise s², and then trained
    by the bound; s = ∞ is Q = P, so that the bound is never above that of P's own Gibbs risk.  Hypotheses: iid rows;
    ``split``, loss, δ fixed before the data were seen; nothing of the model, inputs and outputs depends on certified
    rows.

    Parameters
    ----------
    model : as in `prior_of`
        Trained on none of the certified rows.
    rows : Raw
        All raw rows; for labels, −1 and 1 as targets.
    losses : sequence of Loss
    delta : float in (0, 1)
    inputs, outputs : Scaling, optional
        How raw rows were scaled for the model; ε is in these units.
    mean : DeclaredMean, optional
        None: the model's own.
    charges : sequence of Charge
        They include that for several losses.
    split : Split, optional
        Which rows the model was trained on; None: on none of these.
    predictor : "gibbs" or "mean"
        "mean": the risk of the mean prediction, or of the majority's label.
    classes : two labels, optional
        The labels that −1 and 1 stand for.
    nonrigorous : bool
    trained : bool
        False: Q is the best update, without training by the bound.

    Raises
    ------
    ValueError
        as `prior_of` and `Certificate.issue`.
    """
    unseen = rows.certified(split)
    inputs, outputs = inputs or Scaling(), outputs or Scaling()
    prior = prior_of(model, unseen, inputs)
    mean = prior.mean if mean is None else mean
    engine = engine_of(unseen, inputs, outputs, mean)
    raw_rows, y = (rows, None) if classes is None else _with_labels(rows, classes)
    declared = {
        "grid": prior.grid,
        "inputs": inputs,
        "outputs": outputs,
        "mean": mean,
        "charges": tuple(charges),
        "nonrigorous": nonrigorous,
        "split": split,
        "classes": classes,
    }
    paid = log_choices(prior.grid, charges, (inputs, outputs), mean)
    for loss in losses:
        _for_likelihood(model, loss)
    aims = [Aim(loss, unseen.shape[0], float(delta), paid, predictor) for loss in losses]
    return tuple(certified(prior.laws, engine, aim, raw_rows, y, declared, trained=trained) for aim in aims)
