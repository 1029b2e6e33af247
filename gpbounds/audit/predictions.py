"""What a bound on the divergence guarantees for predictions (Prop. 4), and the measured differences of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float, as_host_points
from gpbounds.audit.levels import Enough
from gpbounds.audit.model import Subject
from gpbounds.divergences import SparsePosterior
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.sandwich import Sandwich, sandwich
from gpbounds.validation import count, instance


@dataclass(frozen=True, eq=False)
class Differences:
    """How far the predictions of the model are from those of the exact Gaussian process at n points, for the latent f.

    Attributes
    ----------
    mean : array (n,)
        |difference of the means|, in standard deviations of the exact posterior.
    variance : array (n,)
        Variance under the model, divided by the exact one.
    """

    mean: Float
    variance: Float

    @property
    def divergence(self) -> Float:
        """KL between the two laws of f at each point, the model first: at most KL[q‖p]."""
        return 0.5 * (np.asarray(log1p_residual(self.variance - 1.0)) + self.mean**2)


@dataclass(frozen=True, eq=False)
class Consequences:
    """The guarantees for predictions, and their measured differences from the exact ones.

    Attributes
    ----------
    model : Sandwich or None
        Prop. 4 at the upper bound on the divergence of the model; its posterior is the first law, the exact posterior
        the second.
    target : Sandwich
        The same at the target.
    measured : Differences or None
        At the points passed, if log p(y) was computed.
    """

    model: Sandwich | None
    target: Sandwich
    measured: Differences | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        measured = self.measured
        return {
            "model": None if self.model is None else self.model.to_dict(),
            "target": self.target.to_dict(),
            "measured": measured
            and {
                "largest difference of means": float(measured.mean.max()),
                "variance ratios": [float(measured.variance.min()), float(measured.variance.max())],
                "largest KL of one prediction": float(measured.divergence.max()),
            },
        }


def consequences(about: Subject, levels: Enough, X_new: Float, *, rows: int = 3000) -> Consequences:
    """Prop. 4 at the bound on KL[q‖p] and at the target, and the differences at X_new (n, D) up to ``rows`` rows.

    The divergence of the laws of f at any points is at most that of the processes, so that the sandwich holds for the
    prediction at every input (L-30, L-31).

    >>> from gpbounds.audit import enough, subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 40)
    >>> about = subject(SquaredExponential(), X, np.sin(X), X[::4], noise=0.1)
    >>> result = consequences(about, enough(about), X[:, None])
    >>> bool(result.measured.mean.max() <= result.model.mean)
    True
    """
    instance("about", about, Subject, "what gpbounds.audit.subject returns")
    instance("levels", levels, Enough, "what gpbounds.audit.enough returns")
    most = count("rows", rows, 0)
    own = None if levels.divergence is None else sandwich(levels.divergence[1])
    measured = None
    X_new = as_host_points(X_new, "X_new", about.D)
    if about.Z is not None and about.N <= most:
        measured = differences(about, about.law, X_new)
    return Consequences(own, sandwich(levels.target), measured)


def differences(about: Subject, law: SparsePosterior, X_new: Float) -> Differences:
    """`Differences` of a sparse posterior at X_new (n, D), in O(N³ + nN²)."""
    mean, variance = about.exact.predict(X_new)
    own = law.predict(X_new)
    return Differences(np.abs(own.mean - mean[:, 0]) / np.sqrt(variance), np.asarray(own.variance) / variance)
