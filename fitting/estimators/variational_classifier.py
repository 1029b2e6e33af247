"""Sparse Gaussian process classification with two labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from fitting.estimators import given_rows
from fitting.estimators.base import own_points
from fitting.estimators.given_rows import table
from fitting.estimators.variational import Variational
from fitting.starts.starts import default_likelihood
from gpbounds.arrays import Array, Float, as_points, host, is_cupy, kind_of_caller, namespace, unmasked
from gpbounds.errors import shown
from gpbounds.likelihoods import Bernoulli, Likelihood
from gpbounds.overflow import within_doubles


@dataclass(eq=False, repr=False)
class VariationalGPClassifier(ClassifierMixin, Variational):
    """Sparse Gaussian process with a free law q of the inducing variables, for two labels of any kind.

    The objective, its claims and its parameters are those of `VariationalGP`; p(y|f) = Φ(±f) or 1/(1 + e^∓f).
    `sklearn.multiclass.OneVsRestClassifier` serves several labels.

    Parameters
    ----------
    n_inducing : int
    likelihood : "probit", "logit" or Bernoulli
    objective : "elbo", "log-loss" or "power"
    beta, hyperparameters, gradient, samples, smoothing, power, structure, batch_size, natural_rate, inducing, \
learn_inducing, optimizer, max_iter, tol, learning_rate, n_restarts, fixed, limits, mean, random_state, device, \
progress, checkpoint : as in `VariationalGP`
    kernel, start : as in `VariationalGP`
        The exact fits of ``start`` are those of the labels as −1 and 1; the variance of f starts at the ratio of signal
        to noise.
    lengthscales : "auto", "separate" or "shared"
        "auto", of a kernel that is None or a name, without ``fixed`` lengthscales: the ELBO trains a model with one
        lengthscale for each of D inputs, and one with a lengthscale that all share in units of standard deviations.
        The larger ELBO − ½k ln N is kept, k the number of its lengthscales: the ELBO alone always grows with k, and
        ½ ln N each is what integrating hyperparameters out costs, up to terms that do not grow with N (BIC).  Training
        takes up to twice the time.  `partial_fit` has separate ones.

    Attributes
    ----------
    lengthscales_ : "separate" or "shared"
        Which of both is kept, where they were compared.
    classes_ : array (2,)
        The labels in their order; y = 1 of the likelihood is the second.

    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0.0, "up", "down")
    >>> model = VariationalGPClassifier(8, random_state=0).fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist(), bool(model.predict_proba([[1.5]])[0, 1] > 0.9)
    (['up', 'down'], True)
    """

    n_inducing: int = 100
    likelihood: Any = "probit"
    objective: str = "elbo"
    noise: ClassVar[None] = None  # type: ignore[misc]
    normalize_y: ClassVar[bool] = False  # type: ignore[misc]
    _by_evidence: ClassVar[bool] = True

    def partial_fit(
        self, X: ArrayLike | Array, y: ArrayLike | Array, classes: ArrayLike | None = None, *, N: int | None = None
    ) -> Self:
        """As `VariationalGP.partial_fit`; the first call names both labels as ``classes``."""
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("classes: expected both labels in the first call of partial_fit, got None")
        known = getattr(self, "classes_", None)
        if classes is not None and known is not None and not np.array_equal(np.unique(_listed(classes)), known):
            raise ValueError(f"classes: expected {known.tolist()}, as in the first call, got {shown(classes)}")
        return self._partial_fit(X, y, N, classes=classes)

    @kind_of_caller
    def predict(self, X: ArrayLike | Array) -> Any:  # type: ignore[override]
        """The more probable label at X (N*, D): shape (N*,), in host memory."""
        second = host(self.decision_function(X)) > 0.0
        return self.classes_[second.astype(int)]

    @kind_of_caller
    def decision_function(self, X: ArrayLike | Array) -> Array:
        """The log odds of the second label at X (N*, D): positive where it is the more probable one."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0]

    @kind_of_caller
    def predict_proba(self, X: ArrayLike | Array) -> Array:
        """E p(y|f) for each label: shape (N*, 2)."""
        mean, variance, xp = self._moments(X)
        return xp.stack([self.likelihood_.predictive_mean(sign * mean, variance) for sign in (-1.0, 1.0)], axis=1)

    @kind_of_caller
    def predict_log_proba(self, X: ArrayLike | Array) -> Array:
        """log E p(y|f) for each label, without underflow: shape (N*, 2)."""
        mean, variance, xp = self._moments(X)
        columns = [self.likelihood_.log_expected_density(sign, mean, variance) for sign in (-1.0, 1.0)]
        return xp.stack(columns, axis=1)

    @kind_of_caller
    def score(self, X: ArrayLike | Array, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows of X whose more probable label is y, weighted by ``sample_weight``."""
        self._fitted()
        N = int(table(self, X, reset=False).shape[0])
        labels = np.ravel(host(given_rows.labels(self, y, N)))
        if _family(labels) != _family(self.classes_):
            raise ValueError(f"y: expected labels such as {self.classes_.tolist()}, got {shown(labels)}")
        return _share(labels == self.predict(X), given_rows.weights(sample_weight, N))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _checked(self, X: Any, y: Any, reset: bool = True, classes: Any = None) -> tuple[Float, Float]:
        from sklearn.utils.multiclass import check_classification_targets, type_of_target
        from sklearn.utils.validation import column_or_1d, validate_data

        if is_cupy(X) or is_cupy(y):
            namespace(X, y)
            points = as_points(X, "X", None if reset else self.n_features_in_)
            self.n_features_in_ = int(points.shape[1])
            points, labels = host(points).astype(np.float64, order="C"), host(y)
            if labels.shape != points.shape[:1]:
                raise ValueError(f"y: expected one label for each row of X, shape (N,), got {labels.shape}")
        else:
            given = table(self, X, reset=reset)
            passed = given_rows.labels(self, y, given.shape[0])
            points, labels = validate_data(self, given, passed, dtype=np.float64, reset=reset)
            points = own_points(X, points)
        if type_of_target(labels, input_name="y").startswith("continuous"):
            raise ValueError("y: expected two labels, got continuous numbers: VariationalGP serves these")
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        if reset:
            self.classes_ = _two(labels) if classes is None else _two(_listed(classes))
        return points, self._signs(labels)

    def _targets(self, y: Any) -> Array:
        return self._signs(given_rows.labels_of("y", y))

    def _signs(self, y: Any) -> Array:
        """1 for the second label, −1 for the first."""
        labels = np.asarray(host(unmasked("y", y)))
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(f"y: expected labels in {self.classes_.tolist()}, got {labels[~known].tolist()[0]!r}")
        return np.where(labels == self.classes_[1], 1.0, -1.0)

    def _checked_likelihood(self, Y: Float) -> Likelihood:
        likelihood = default_likelihood(self.likelihood, Y)
        if not isinstance(likelihood, Bernoulli):
            raise ValueError(
                f"likelihood: expected 'probit', 'logit' or a Bernoulli, got {shown(self.likelihood)}: VariationalGP "
                "serves real numbers and counts"
            )
        return likelihood


def _family(labels: Any) -> str:
    """What labels are: numbers, dates, bytes or words."""
    return {"m": "dates", "M": "dates", "S": "bytes"}.get(
        labels.dtype.kind, "numbers" if labels.dtype.kind in "biuf" else "words"
    )


@within_doubles
def _share(hits: Any, sample_weight: Any) -> float:
    return float(np.average(hits, weights=sample_weight))


def _listed(classes: Any) -> Any:
    """The argument ``classes`` as an array of two labels."""
    try:
        listed = np.asarray(classes)
    except (TypeError, ValueError):
        listed = np.zeros(0)
    if listed.ndim != 1 or listed.size < 2:
        raise ValueError(f"classes: expected the two labels that y may have, got {shown(classes)}")
    given_rows.sorted_labels("classes", listed)
    return listed


def _two(labels: Any) -> Any:
    """The two labels, in their order."""
    classes = np.unique(labels)
    if classes.size > 2:
        raise ValueError(
            f"y: expected two labels, got {classes.size} classes (Only binary classification is supported): "
            "OneVsRestClassifier(VariationalGPClassifier()) of sklearn.multiclass serves several labels"
        )
    if classes.size < 2:
        raise ValueError(f"y: expected two labels, got one class alone: {classes.tolist()[0]!r}")
    return classes
