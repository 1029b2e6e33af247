"""Scores of predictions: losses, errors, and whether predicted probabilities agree with frequencies.

A prediction is the law N(m, v) of the latent f at a point; with a likelihood it is the law of a target Y ~ p(y|f).
The scores are means over the points.

>>> import numpy as np
>>> from gpbounds.likelihoods import Poisson
>>> y, m, v = np.array([0.0, 3.0, 2.0]), np.array([0.1, 0.9, 0.4]), np.full(3, 0.2)
>>> round(log_loss(Poisson("exp"), y, m, v), 4)
1.4483
>>> round(mean_relative_error(y, Poisson("exp").predictive_mean(m, v)), 4)
0.497
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_number, host, is_cupy, kind_of_caller
from gpbounds.likelihoods import Likelihood
from gpbounds.overflow import within_doubles
from gpbounds.validation import closed_unit, count, finite, generator, instance, non_negative, open_unit, within_memory

Numbers = ArrayLike | Array


def log_loss(likelihood: Likelihood, y: Numbers, m: Numbers, v: Numbers | None = None) -> float:
    """−mean log E p(y|f), f ~ N(m, v): the negative log predictive density.

    Of a fitted model it is ``-model.log_predictive_density(X, y).mean()``, in the units of y.

    Parameters
    ----------
    likelihood : Likelihood
    y : array (n,)
        Targets.
    m, v : arrays (n,)
        Means and variances of the latent f; both are needed.

    Raises
    ------
    ValueError, NonFinite
        for a model in place of a likelihood (the message has the right call), wrong arguments, shapes that differ, a y
        the likelihood has no density for.

    >>> from gpbounds.likelihoods import Bernoulli
    >>> round(log_loss(Bernoulli("probit"), [1, 0], [0.5, 0.5], [3.0, 3.0]), 4)  # −½ log Φ(¼)Φ(−¼)
    0.713
    """
    _require_law("log_loss", likelihood, v)
    return -float(np.mean(likelihood.log_expected_density(*_columns(y=y, m=m, v=v))))


@within_doubles
def square_loss(y: Numbers, prediction: Numbers) -> float:
    """mean (y − ŷ)², for the ``prediction`` ŷ, such as the predictive mean.

    >>> square_loss([1.0, 2.0], [1.5, 2.0])
    0.125
    """
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(*_columns(y=y, prediction=prediction)))


def classification_error(y: Numbers, m: Numbers) -> float:
    """Share of labels that differ from 1[m > 0], the Bayes rule for the 0-1 loss under probit and logit.

    Parameters
    ----------
    y : array (n,)
        Labels in {0, 1} or {−1, 1}.
    m : array (n,)
        Means of the latent f.

    >>> classification_error([1, 0, 1, 1], [0.3, -2.0, -0.1, 5.0])
    0.25
    """
    from sklearn.metrics import zero_one_loss

    labels, means = _columns(y=y, m=m)
    return float(zero_one_loss(_labels(labels), means > 0.0))


@within_doubles
def mean_relative_error(y: Numbers, prediction: Numbers) -> float:
    """mean |y − ŷ|/max(y, 1), for counts y ≥ 0 and the ``prediction`` ŷ.

    >>> mean_relative_error([0, 4], [0.5, 5.0])
    0.375
    """
    counts, predicted = _columns(y=y, prediction=prediction)
    non_negative("y", counts)
    return float(np.mean(np.abs(counts - predicted) / np.maximum(counts, 1.0)))


def calibration_error(y: Numbers, probability: Numbers, bins: int = 10) -> float:
    """The expected calibration error: Σ_b (n_b/n)·|share of ones − mean probability| over the bins b.

    The bins are equal parts of [0, 1], by the probability of the label 1; n_b points lie in bin b.  For a calibrated
    model it tends to 0 as n grows, from above: its mean is about √(bins/n)/2 at most.

    Parameters
    ----------
    y : array (n,)
        Labels in {0, 1} or {−1, 1}.
    probability : array (n,)
        Predicted probabilities of 1, such as `Bernoulli.predictive_mean`.
    bins : int

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments and shapes that differ.

    >>> round(calibration_error([0, 0, 1, 1], [0.2, 0.2, 0.3, 0.9]), 6)
    0.3
    """
    from sklearn.calibration import calibration_curve

    labels, p = _columns(y=y, probability=probability)
    number = count("bins", bins)
    closed_unit("probability", p)
    with within_memory("bins"):
        share, mean = calibration_curve(_labels(labels), p, n_bins=number)
        edges = np.linspace(0.0, 1.0, number + 1)[1:-1]
        sizes = np.bincount(np.searchsorted(edges, p), minlength=number)
    return float(sizes[sizes > 0] @ np.abs(share - mean) / p.size)


def coverage(
    likelihood: Likelihood, y: Numbers, m: Numbers, v: Numbers | None = None, level: ArrayLike = (0.5, 0.9)
) -> Any:
    """Share of targets within the central intervals of their predictive laws.

    The interval of ``level`` c goes from the (1 − c)/2 to the (1 + c)/2 quantile, both included; the p quantile is the
    least y with P(Y ≤ y) ≥ p.  Under a true model the share is c on average, and more for counts and labels.

    Parameters
    ----------
    likelihood, y, m, v : as in `log_loss`
    level : number or array in (0, 1)

    Returns
    -------
    float or array
        A share for each level.

    >>> from gpbounds.likelihoods import Gaussian
    >>> coverage(Gaussian(1.0), [0.0, 1.0, -3.0, 9.0], np.zeros(4), np.ones(4)).tolist()
    [0.25, 0.5]
    """
    _require_law("coverage", likelihood, v)
    levels = np.asarray(open_unit("level", level))
    below, up_to = likelihood.predictive_cdf(*_columns(y=y, m=m, v=v))
    low, high = 0.5 * (1.0 - levels)[..., None], 0.5 * (1.0 + levels)[..., None]
    return as_number(np.mean((up_to >= low) & (below < high), axis=-1))


@kind_of_caller
def randomised_pit(likelihood: Likelihood, y: Numbers, m: Numbers, v: Numbers, rng: np.random.Generator | int) -> Float:
    """The randomised probability integral transform u = P(Y < y) + U·P(Y = y) of each target, U uniform.

    Under a true model each of the n numbers is uniform on (0, 1), for counts and labels as well.  They are
    independent if the targets are, given the predictions; targets of a Gaussian process are not, given its training
    rows.

    Parameters
    ----------
    likelihood, y, m, v : as in `log_loss`
    rng : numpy.random.Generator or int
        A generator, or a seed for one.

    >>> from gpbounds.likelihoods import Poisson
    >>> randomised_pit(Poisson("exp"), [0, 2, 9], [0.5, 0.5, 0.5], [0.1, 0.1, 0.1], rng=0).round(2).tolist()
    [0.13, 0.57, 1.0]
    """
    instance("likelihood", likelihood, Likelihood, "a likelihood of gpbounds.likelihoods")
    draws = generator(rng)
    below, up_to = likelihood.predictive_cdf(*_columns(y=y, m=m, v=v))
    return np.asarray(below + draws.uniform(size=below.shape) * (up_to - below))


def _require_law(name: str, likelihood: Any, v: Any) -> None:
    """Refuse a model in place of a likelihood, and variances that are missing."""
    if isinstance(likelihood, Likelihood) and v is not None:
        return
    got = "no v" if isinstance(likelihood, Likelihood) else type(likelihood).__name__
    instead = (
        "-model.log_predictive_density(X, y).mean()" if name == "log_loss" else "low, high = model.predict_interval(X)"
    )
    argument = "v" if isinstance(likelihood, Likelihood) else "likelihood"
    raise ValueError(
        f"{argument}: {name} expected (likelihood, y, m, v), a likelihood of gpbounds.likelihoods, targets, and means "
        f"and variances of the latent f, got {got}; for a fitted model: {instead}"
    )


def _columns(**arguments: Any) -> list[Float]:
    """The arguments as finite arrays (n,), n ≥ 1, in host memory."""
    arrays = [finite(name, host(value) if is_cupy(value) else value) for name, value in arguments.items()]
    if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1 or arrays[0].size == 0:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(arguments, arrays, strict=True))
        raise ValueError(f"{', '.join(arguments)}: expected arrays of one shape (n,) with n >= 1, got {shapes}")
    return arrays


def _labels(y: Float) -> Any:
    """Whether each label is 1."""
    if not (np.isin(y, (0.0, 1.0)).all() or np.isin(y, (-1.0, 1.0)).all()):
        raise ValueError(f"y: expected labels in {{0, 1}} or in {{-1, 1}}, got {np.unique(y)[:5].tolist()}")
    return y > 0.0
