"""What `certify` is asked: the model, its rows, labels and units, and which forms of certificate it allows."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.certifying import unseen
from fitting.certifying.gibbs import KINDS
from fitting.estimators import PACGP, ExactGP, GaussianProcess, LowRankGP, SparseGP
from fitting.estimators.declared import losses_of, scaled_by, scalings_of
from fitting.estimators.pac import PacGaussianProcess
from gpbounds.arrays import is_frame, unmasked
from gpbounds.errors import shown
from gpbounds.likelihoods import Poisson
from gpbounds.losses import Loss, Sign
from gpbounds.once import cached_property
from gpbounds.pacbayes import Charge, DeclaredMean, HyperGrid, Scaling, Split
from gpbounds.pacbayes.certificate.rows import Arrays, Partitions, Raw, Scaled, raw
from gpbounds.pacbayes.certificate.sealed import encoded
from gpbounds.renyi import Model
from gpbounds.row_noise import is_per_row
from gpbounds.rows import is_elsewhere
from gpbounds.rows.source import changed

COUNTS = ("poisson", "poisson-softplus")
"""Names of likelihoods whose f has other units than the targets."""

LABELS = "zero-one"
"""The loss of labels: 1 for another label than the predicted one."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What `certify` is asked; what several forms need is computed once.

    Attributes
    ----------
    model, X, y, loss, epsilon, delta, grid, scaling, mean, charges, nonrigorous : as in `certify`
    shares : Split
        The split for an unfitted model.
    level : float or None
        ``coverage``.
    """

    model: Any
    X: Any
    y: Any
    loss: str | Loss | None
    epsilon: Any
    delta: float
    shares: Split
    grid: HyperGrid | None
    scaling: Any
    mean: DeclaredMean | None
    charges: tuple[Charge, ...]
    nonrigorous: bool
    level: float | None

    @cached_property
    def kind(self) -> str:
        """Whether the model is "unfitted" or "fitted", "imported", or predictions that are "given"."""
        return unseen.kind_of(self.model)

    @property
    def split(self) -> Split | None:
        """The split of the rows into those of training and others; None where a fitted model has not seen any."""
        return self.shares if self.kind == "unfitted" else None

    # ------------------------------------------------------------------ labels, losses, rows

    @cached_property
    def given(self) -> unseen.PassedPredictions:
        """The predictions that were passed."""
        numeric = not is_elsewhere(self.X) and np.asarray(unmasked("y", self.y)).dtype.kind in "iuf"
        return unseen.given_as(self.model, labels=self.loss == LABELS, numeric=numeric)

    @cached_property
    def labelled(self) -> bool:
        """Whether the targets are labels."""
        if self.kind == "given":
            return self.given.labels
        return unseen.labels_rows(self.model) or (isinstance(self.loss, str) and self.loss == LABELS)

    @cached_property
    def classes(self) -> Any:
        """The labels, in their order, as an array; None for numbers, and for −1 and 1 of rows in partitions."""
        if not self.labelled or is_elsewhere(self.X):
            return None
        labels = np.asarray(unmasked("y", self.y))
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(f"y: expected one label for each row of X, shape (N,), got {labels.shape}")
        known = getattr(self.model, "classes_", labels[:0]) if self.kind == "fitted" else labels[:0]
        try:
            classes = np.unique(np.concatenate([labels, np.asarray(known)]))
        except TypeError:
            raise ValueError("y: expected labels of one kind, got texts among numbers") from None
        if len(classes) < 2:
            raise ValueError(f"y: expected two labels or more, got {classes.tolist()} alone")
        return classes

    @cached_property
    def labels(self) -> tuple[Any, ...] | None:
        """``classes`` as they are stored."""
        return None if self.classes is None else tuple(self.classes.tolist())

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """One loss for each ε; of labels `Sign`."""
        if not self.labelled:
            return losses_of("band" if self.loss is None else self.loss, self.epsilon)
        if self.loss is None or self.loss == LABELS or isinstance(self.loss, Sign):
            return (Sign(),)
        raise ValueError(f"loss: expected None or {LABELS!r} for labels, got {shown(self.loss)}")

    @cached_property
    def rows(self) -> Raw:
        """All raw rows; places in ``classes`` stand for labels."""
        return raw(self.X, self.y if self.labels is None else encoded(self.y, self.labels))

    @property
    def passed(self) -> tuple[Any, Any]:
        """X and y for a certificate: the raw rows, or X with its labels."""
        return (self.rows, None) if self.labels is None else (self.X, self.y)

    @property
    def signed(self) -> Raw:
        """All raw rows with −1 and 1 for two labels."""
        if self.labels is None:
            return self.rows
        assert isinstance(self.rows, Arrays)
        return Arrays(self.rows.X, encoded(self.y, self.labels, signs=True))

    @cached_property
    def certified(self) -> Raw:
        """The rows that the model has not seen."""
        return self.rows.certified(self.split)

    # ------------------------------------------------------------------ the model and its units

    @cached_property
    def units(self) -> tuple[Scaling, Scaling]:
        """How raw inputs and targets are scaled for the model."""
        if not (isinstance(self.scaling, str) and self.scaling == "prior"):
            return scalings_of(self.scaling, self.nonrigorous)
        if self.kind != "unfitted":
            raise ValueError(
                "scaling: expected 'as given', or a pair (inputs, outputs) that states how the rows of training were "
                "scaled, got 'prior', which is for an unfitted model: the constants come from the rows that train it"
            )
        inputs, outputs = scaled_by(self.rows.prior(self.shares))
        return inputs, Scaling() if self.labelled else outputs

    @property
    def own_units(self) -> bool:
        """Whether a model that declares its own scaling was given no other one."""
        is_pac = isinstance(self.trained, PacGaussianProcess)
        return is_pac and all(scaling.origin == "as given" for scaling in self.units)

    @property
    def loss_units(self) -> tuple[Scaling, Scaling]:
        """How raw inputs and targets are scaled for kernel and loss."""
        return (self.trained.inputs_, self.trained.outputs_) if self.own_units else self.units

    @cached_property
    def trained(self) -> Any:
        """The model, fitted to rows that are not certified."""
        if self.kind == "unfitted":
            return self.fitted_to(self.rows.prior(self.shares))
        if self.kind == "fitted":
            unseen.refuse_seen(self.model, self.rows, *self.units, self.labels)
        return self.model

    def fitted_to(self, rows: Raw) -> Any:
        """A clone of the model, fitted to the scaled ``rows``."""
        from sklearn.base import clone

        if is_per_row(getattr(self.model, "noise", None)):
            raise ValueError(
                "model: expected a fitted one if each row has a noise of its own, got an unfitted one, which would be "
                "fitted to a share of the rows: fit it to rows with their noise, and pass others"
            )
        model, (inputs, outputs) = clone(self.model), self.units
        if isinstance(rows, Partitions):
            if not getattr(model, "_partitions", False):
                raise ValueError(
                    f"X: expected arrays for {type(model).__name__}, which needs all rows of training in memory, got "
                    "rows that are read by partitions: train SparseGP, LowRankGP, SparsePACGP or VariationalGP, or "
                    "pass a fitted model, or a file of predictions"
                )
            as_given = inputs.origin == outputs.origin == "as given"
            return model.fit(rows.rows if as_given else changed(rows.rows, Scaled(inputs, outputs)))
        assert isinstance(rows, Arrays)
        targets = outputs.apply(rows.y) if self.classes is None else self.classes[rows.y.astype(int)]
        return model.fit(unseen.named(self._table, inputs.apply(rows.X)), targets)

    def for_raw_rows(self, model: Any) -> Any:
        """A copy of ``model``, which was fitted to scaled rows, that predicts from raw rows in raw units.

        It is no copy of another library's model, or of one that declares its own scaling, or that the user has fitted.
        """
        inputs, outputs = self.units
        as_given = inputs.origin == outputs.origin == "as given"
        fits = isinstance(model, GaussianProcess) and not isinstance(model, PacGaussianProcess)
        if self.kind != "unfitted" or as_given or not fits:
            return model
        shift, scale = float(np.ravel(outputs.shift)[0]), float(np.ravel(outputs.scale)[0])
        made = copy.copy(model)
        made.inputs_ = inputs
        made.y_mean_, made.y_scale_ = shift + scale * model.y_mean_, scale * model.y_scale_
        return made

    @property
    def _table(self) -> Any:
        """X, where it is a table whose columns name the inputs."""
        return self.X if is_frame(self.X) and hasattr(self.X, "columns") else None

    @cached_property
    def predictor(self) -> unseen.UnseenPredictor:
        """What predicts at the certified rows."""
        if self.kind == "given":
            return self.given
        if self.kind == "imported":
            return unseen.OfImported(self.model, *self.units)
        origin = "trained on other rows"
        if self.kind == "unfitted":
            origin = f"trained on {self.rows.shape[0] - self.certified.shape[0]} other rows"
        return unseen.OfModel(self.trained, *self.units, self._table, origin)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of certificate that the model allows; no target decides this."""
        if self.kind == "given" or not isinstance(self.model, GaussianProcess | Model):
            return ("held-out",)
        if self.kind == "fitted" and self._are_rows_of_training:
            return ("pac-bayes",)
        names = ["data-prior", "held-out"] if _has_law(self.model, self.rows.shape[0]) else ["held-out"]
        return ("pac-bayes", *names) if self.kind == "unfitted" and self._has_grid else tuple(names)

    @property
    def _are_rows_of_training(self) -> bool:
        """Whether a fitted GP keeps some of these rows; one that read its rows by partitions keeps none to compare."""
        kept = len(self.model.X_train_) > 0
        return not kept or unseen.count_seen(self.model, self.rows, *self.units, self.labels) > 0

    @property
    def _has_grid(self) -> bool:
        """Whether the model's posterior at its own rows has a certificate."""
        if not isinstance(self.model, KINDS) or (isinstance(self.model, SparseGP) and self.model.method == "pic"):
            return False
        if isinstance(self.model, PacGaussianProcess):
            return self.model.prior == "grid"
        fixed = (isinstance(self.model.mean, str) and self.model.mean == "zero") or self.mean is not None
        return fixed and not self.model.normalize_y


def _has_law(model: Any, N: int) -> bool:
    """Whether ``model`` can be the prior of rows that it has not seen."""
    from fitting.data_priors.prior_law import MOST

    if isinstance(model, Model):
        return model.q is not None
    if isinstance(getattr(model, "likelihood", None), Poisson) or getattr(model, "likelihood", None) in COUNTS:
        return False
    if isinstance(model, LowRankGP) or (isinstance(model, SparseGP) and model.method == "pic"):
        return False
    return not isinstance(model, ExactGP | PACGP) or N <= MOST
