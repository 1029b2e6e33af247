"""Where in input space the approximation is worst: the variance that the inducing points leave unexplained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float, as_host_points
from gpbounds.audit.model import Subject
from gpbounds.validation import instance
from gpbounds.whitening import whiten

BINS = 10
"""Bins of an input, with equally many rows each."""


@dataclass(frozen=True)
class Part:
    """The tenth of the rows, in the order of one input, in which the mean of the measure is largest.

    Attributes
    ----------
    column : str
    share : float
        Share of the variation of the measure between the rows that the bins of this input explain, in [0, 1].
    low, high : float
        Ends of the bin with the largest mean.
    mean, overall : float
        The mean of the measure there, and over all rows.
    """

    column: str
    share: float
    low: float
    high: float
    mean: float
    overall: float

    @property
    def where(self) -> str:
        """The bin in words."""
        if self.low == self.high:
            return f"at {self.low:.4g}"
        return f"between {self.low:.4g} and {self.high:.4g}"


@dataclass(frozen=True, eq=False)
class Places:
    """The unexplained variance at points.

    Attributes
    ----------
    X : array (n, D)
    unexplained : array (n,)
        (k(x, x) − q(x, x))/σ²: the prior variance of f(x) given f(Z), in units of the noise variance.  0 at the
        inducing points.
    parts : tuple of Part
        One for each input, the most telling input first.
    trace : float
        T/σ², the sum over the training rows, which the bounds on the divergence contain.
    """

    X: Float
    unexplained: Float
    parts: tuple[Part, ...]
    trace: float

    @property
    def order(self) -> Any:
        """The numbers of the points, the worst first."""
        return np.argsort(-self.unexplained, kind="stable")

    def to_dict(self, several: int = 10) -> dict[str, Any]:
        """The record with the worst points, ready for JSON."""
        worst = self.order[:several]
        return {
            "trace": self.trace,
            "worst": [
                {"point": int(i), "x": self.X[i].tolist(), "unexplained": float(self.unexplained[i])} for i in worst
            ],
            "inputs": [vars(part) for part in self.parts],
        }


def places(about: Subject, Z: Float, X_new: Float) -> Places:
    """The variance that inducing inputs Z leave unexplained at X_new (n, D): streamed, O((N + n)M²).

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 40)[:, None]
    >>> there = places(subject(SquaredExponential(), X, np.sin(X[:, 0]), noise=0.1), X[:20:4], X)
    >>> float(X[there.order[0], 0]), there.parts[0].high
    (10.0, 10.0)
    """
    instance("about", about, Subject, "what gpbounds.audit.subject returns")
    X_new = as_host_points(X_new, "X_new", about.D)
    trace = whiten(about.kernel, about.X, Z).trace / about.noise
    unexplained = whiten(about.kernel, X_new, Z).residual / about.noise
    parts = [_part(column, X_new[:, j], unexplained) for j, column in enumerate(about.columns)]
    return Places(X_new, unexplained, tuple(sorted(parts, key=lambda part: -part.share)), trace)


def _part(column: str, x: Float, measure: Float) -> Part:
    """Bins between quantiles of x; equal values share a bin."""
    inner = np.unique(np.quantile(x, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    bins = np.searchsorted(inner, x)
    sizes = np.bincount(bins, minlength=inner.size + 1)
    sums = np.bincount(bins, measure, minlength=inner.size + 1)
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), -np.inf)
    overall, spread = float(measure.mean()), float(((measure - measure.mean()) ** 2).sum())
    between = float((sizes * np.where(sizes > 0, means - overall, 0.0) ** 2).sum())
    worst = int(np.argmax(means))
    there = x[bins == worst]
    return Part(
        column,
        between / spread if spread > 0.0 else 0.0,
        float(there.min()),
        float(there.max()),
        float(means[worst]),
        overall,
    )
