"""Declarations of a certificate, which no check can prove: how data were scaled, which choices were made from lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import shown
from gpbounds.losses import Interval, Loss, Relative, Sign
from gpbounds.means import LinearMean
from gpbounds.records import NUMBER, NUMBERS, TEXT, VECTOR, WHOLE, Record, Slots
from gpbounds.validation import choice, count, finite, instance, positive, scalar

_ORIGINS = {
    "as given": "taken as given: their units were fixed before the data were seen",
    "fixed in advance": "shifted and scaled by constants that were fixed before the data were seen",
    "disjoint split": "shifted and scaled by constants from data disjoint from these",
    "charged": "shifted and scaled by constants from a list of {count} made before the data; ln {count} is paid",
    "same data": "shifted and scaled by constants computed from these very data, which no penalty covers",
}


@dataclass(frozen=True)
class Scaling(Record):
    """How raw inputs or outputs were scaled, (raw − shift)/scale, and the origin of the constants.

    Constants that depend on the data make the prior and the loss depend on the data, and then the bound does not follow
    (P-45).  Valid constants are fixed in advance, computed from disjoint data, or chosen from ``count`` listed in
    advance, which costs ln ``count``.

    Parameters
    ----------
    origin : "as given", "fixed in advance", "disjoint split", "charged" or "same data"
        "as given" has no constants; "same data" makes a certificate non-rigorous.
    shift, scale : float or one for each column
        In the raw units; scale > 0.
    count : int
        Length of the list, for "charged"; otherwise 1.

    Raises
    ------
    ValueError
        for constants or a count that do not fit the origin.

    >>> Scaling("disjoint split", shift=10.0, scale=2.0).apply(np.array([12.0, 7.0])).tolist()
    [1.0, -1.5]
    """

    origin: str = "as given"
    shift: Any = 0.0
    scale: Any = 1.0
    count: int = 1
    stored: ClassVar[Slots] = {"origin": TEXT, "shift": NUMBERS, "scale": NUMBERS, "count": WHOLE}

    def __post_init__(self) -> None:
        choice("origin", self.origin, tuple(_ORIGINS))
        for name, values in (("shift", finite("shift", self.shift)), ("scale", positive("scale", self.scale))):
            if values.ndim > 1 or values.size == 0:
                raise ValueError(f"{name}: expected one number or one for each column, got shape {values.shape}")
            object.__setattr__(self, name, tuple(values.tolist()) if values.ndim else float(values))
        object.__setattr__(self, "count", count("count", self.count))
        if (self.count > 1) != (self.origin == "charged"):
            raise ValueError(
                f"count: expected 2 or more with origin 'charged', else 1, got {self.count} with {self.origin!r}"
            )
        if self.origin == "as given" and (
            np.any(np.asarray(self.shift) != 0.0) or np.any(np.asarray(self.scale) != 1.0)
        ):
            raise ValueError("origin: expected 'as given' without constants, got a shift or scale: name their origin")

    @property
    def rigorous(self) -> bool:
        """False if the constants were computed from the same data."""
        return self.origin != "same data"

    def apply(self, raw: Float) -> Float:
        """(raw − shift)/scale for raw values (N,) or (N, D); the same doubles on every machine."""
        columns = raw.shape[1] if raw.ndim == 2 else 1
        for name in ("shift", "scale"):
            size = np.size(getattr(self, name))
            if np.ndim(getattr(self, name)) and size != columns:
                raise ValueError(f"{name}: expected one number or {columns}, one for each column, got {size}")
        if self.origin == "as given":
            return raw
        with np.errstate(over="ignore"):
            scaled = (raw - np.asarray(self.shift)) / np.asarray(self.scale)
        if not np.isfinite(scaled).all():
            raise ValueError("shift, scale: expected finite numbers after scaling, got an overflow")
        return scaled

    def describe(self) -> str:
        """A phrase that follows "Inputs were" or "Outputs were"."""
        constants = "" if self.origin == "as given" else f" (shift {_brief(self.shift)}, scale {_brief(self.scale)})"
        return _ORIGINS[self.origin].format(count=self.count) + constants

    def doubt(self, raw: Float) -> str:
        """A warning if the numbers suggest that the scaling constants were computed from these data, else "".

        The warning appears if the scaled columns have mean 0 and variance 1 to nine digits. This may be chance; a
        reader should ask the signer.
        """
        if not self.rigorous:
            return ""
        try:
            scaled = np.atleast_2d(self.apply(raw).T)
        except ValueError:  # the constants are for another number of columns
            return ""
        return _doubted(scaled.mean(axis=1), scaled.std(axis=1), raw.shape[0])

    def doubt_of(self, mean: Float, std: Float, N: int) -> str:
        """As `doubt`, from means and standard deviations of the raw columns over N rows."""
        if not self.rigorous:
            return ""
        try:
            centre = self.apply(np.ravel(mean)[None, :])[0]
        except ValueError:
            return ""
        return _doubted(centre, np.ravel(std) / np.asarray(self.scale), N)


@dataclass(frozen=True)
class Charge(Record):
    """A choice, made after seeing the data, from a list of ``count`` fixed before: it costs ln ``count`` nats.

    ln E for one of E accuracies ε (P-47), ln 2 for the better of a shared and separate lengthscales (P-45), and ln
    of the number of kernel families or grids.

    >>> Charge("accuracies ε", 5)
    Charge(choice='accuracies ε', count=5)
    """

    choice: str
    count: int
    stored: ClassVar[Slots] = {"what": TEXT.of("choice"), "count": WHOLE}

    def __post_init__(self) -> None:
        if not isinstance(self.choice, str) or not self.choice.strip():
            raise ValueError(f"choice: expected words that name the choice, got {shown(self.choice)}")
        object.__setattr__(self, "count", count("count", self.count))


def as_scalings(inputs: object, outputs: object) -> tuple[Scaling, Scaling]:
    """How inputs and outputs were scaled; None stands for "as given"."""
    given = {"inputs": inputs, "outputs": outputs}
    known = [
        Scaling() if each is None else instance(name, each, Scaling, "a Scaling or None")
        for name, each in given.items()
    ]
    return known[0], known[1]


def as_charges(charges: object) -> tuple[Charge, ...]:
    """A sequence of charges."""
    listed = tuple(charges) if isinstance(charges, Iterable) and not isinstance(charges, str | bytes) else (None,)
    if not all(isinstance(charge, Charge) for charge in listed):
        raise ValueError(f"charges: expected a sequence of Charge, got {shown(charges)}")
    return listed


def as_mean(mean: object) -> DeclaredMean | None:
    """The mean of a prior, or None for 0."""
    known: DeclaredMean | None = instance("mean", mean, (DeclaredMean, type(None)), "a DeclaredMean or None")
    return known


def _doubted(means: Float, deviations: Float, N: int) -> str:
    """The warning about scaled columns with these means and standard deviations."""
    ones = (deviations, deviations * np.sqrt(N / (N - 1.0))) if N > 1 else ()
    if any(np.all((np.abs(means) < 1e-9) & (np.abs(each - 1.0) < 1e-9)) for each in ones):
        return "after scaling every column has mean 0 and variance 1 to nine digits, as if scaled by these very data."
    return ""


def _brief(values: Any) -> str:
    numbers = np.atleast_1d(np.asarray(values))
    text = ", ".join(f"{v:.6g}" for v in numbers[:6]) + (f", ... {numbers.size} in all" if numbers.size > 6 else "")
    return text if np.ndim(values) == 0 else f"[{text}]"


# The mean function of a prior, as a certificate declares it: fixed in advance, from disjoint data, or on a grid.

_ORIGINS_OF_MEANS = {
    "fixed in advance": "fixed before the data were seen",
    "disjoint split": "fitted to data disjoint from these",
    "grid": "one of {count} on a grid that was fixed before the data were seen; ln {count} is paid",
}


@dataclass(frozen=True)
class DeclaredMean(Record):
    """The mean of a certificate's prior, m(x) = intercept + Σ_d slopes_d x_d, and the origin of its coefficients.

    Units are those of the scaled data.  Q and the loss see y − m(x): for a loss of y − f they are those of a prior with
    the mean m.  The prior must not depend on the certified rows (P-45).  Coefficients are therefore fixed in advance,
    fitted to disjoint data, or members of a grid that was fixed in advance, which costs the logarithm of its size
    (P-44).  There is no origin for coefficients that were fitted to the same rows and are not on a grid.

    Claim N-prior-mean: the certificate is that of the rows (x, y − m(x)) and a prior with mean 0.

    Parameters
    ----------
    origin : "fixed in advance", "disjoint split" or "grid"
    intercept : float
    slopes : sequence of float, optional
        One for each column; none is a constant mean.
    edge : float
        For "grid": coefficients lie between −edge and edge.
    steps : int
        For "grid": a coefficient is edge·i/steps for a whole number i from −steps to steps.

    Raises
    ------
    ValueError
        for other origins, coefficients off the grid, and arguments of a grid without one.

    >>> mean = DeclaredMean("grid", 0.5, (-1.0,), edge=2.0, steps=4)
    >>> mean.count, mean.apply(np.array([[3.0]]), np.array([1.0])).tolist()
    (81, [3.5])
    """

    origin: str
    intercept: float
    slopes: Any = ()
    edge: float = 0.0
    steps: int = 0
    stored: ClassVar[Slots] = {"origin": TEXT, "intercept": NUMBER, "slopes": VECTOR, "edge": NUMBER, "steps": WHOLE}

    def __post_init__(self) -> None:
        choice("origin", self.origin, tuple(_ORIGINS_OF_MEANS))
        object.__setattr__(self, "intercept", scalar(finite, "intercept", self.intercept))
        slopes = finite("slopes", () if self.slopes is None else self.slopes)
        if slopes.ndim != 1:
            raise ValueError(f"slopes: expected one for each column, or none, got shape {slopes.shape}")
        object.__setattr__(self, "slopes", tuple(slopes.tolist()))
        if self.origin != "grid":
            if self.edge != 0.0 or self.steps != 0:
                raise ValueError(
                    f"edge, steps: expected none for {self.origin!r}, got {shown(self.edge)}, {self.steps!r}"
                )
            return
        object.__setattr__(self, "edge", scalar(positive, "edge", self.edge))
        object.__setattr__(self, "steps", count("steps", self.steps))
        for value in self.coefficients:
            if on_grid(value, self.edge, self.steps) != value:
                raise ValueError(
                    f"intercept, slopes: expected whole multiples of {self.edge:g}/{self.steps} from {-self.edge:g} to "
                    f"{self.edge:g}, got {shown(value)}"
                )

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The intercept, and the slopes."""
        return (self.intercept, *self.slopes)

    @property
    def count(self) -> int:
        """The number of functions from which this one was chosen."""
        return (2 * self.steps + 1) ** len(self.coefficients)

    @property
    def function(self) -> LinearMean:
        """m, in the units of the scaled data."""
        return LinearMean(self.intercept, self.slopes or None)

    def apply(self, X: Float, y: Float) -> Float:
        """y − m(x) for scaled X (N, D) and y (N,) or (N, 1); the same doubles on every machine."""
        if len(self.slopes) not in (0, X.shape[1]):
            raise ValueError(
                f"slopes: expected none, or one for each of {X.shape[1]} column(s), got {len(self.slopes)}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.full(X.shape[0], self.intercept)
            for column, slope in enumerate(self.slopes):  # in this order, each product and sum rounded
                values = values + slope * X[:, column]
            left = y - values.reshape(y.shape)
        if not np.isfinite(left).all():
            raise ValueError("intercept, slopes: expected finite numbers after the mean is subtracted, got an overflow")
        return left

    def describe(self) -> str:
        """A sentence."""
        slopes = ", ".join(f"{slope:.6g}" for slope in self.slopes[:6]) + (", ..." if len(self.slopes) > 6 else "")
        own = f"intercept {self.intercept:.6g}" + (f", slopes [{slopes}]" if self.slopes else "")
        return f"The mean of the prior was {_ORIGINS_OF_MEANS[self.origin].format(count=self.count)} ({own})."

    def doubt(self, X: Float, y: Float) -> str:
        """A warning if y − m(x) is orthogonal to 1 and to every column with a slope, as after least squares, else "".

        ``X`` and ``y`` are scaled.  A mean on a grid may be fitted to the rows.
        """
        if self.origin == "grid" or len(y) < 2:
            return ""
        left = self.apply(X, y)
        columns = [np.ones(len(left)), *(X[:, d] - X[:, d].mean() for d in range(len(self.slopes)))]
        size = float(np.sqrt(left @ left))
        if all(abs(float(left @ each)) <= 1e-9 * size * float(np.sqrt(each @ each)) for each in columns):
            return "what it leaves of the targets is orthogonal to it to nine digits, as if fitted to these very rows."
        return ""


@dataclass(frozen=True)
class MeanGrid(Record):
    """The grid of mean functions from which `fitting.PACGP` may choose one by the certified rows.

    Each coefficient is a multiple of edge/steps from −edge to edge; a choice costs ln(2·steps + 1) for each of them.

    Parameters
    ----------
    kind : "constant" or "linear"
    edge : float
        In the units of the scaled targets (and inputs).
    steps : int

    >>> grid = MeanGrid("linear", edge=2.0, steps=4)
    >>> grid.nearest(np.array([[0.0], [1.0], [2.0]]), np.array([0.6, 1.5, 2.7])).coefficients
    (0.5, 1.0)
    """

    kind: str
    edge: float
    steps: int
    stored: ClassVar[Slots] = {"kind": TEXT, "edge": NUMBER, "steps": WHOLE}

    def __post_init__(self) -> None:
        choice("kind", self.kind, ("constant", "linear"))
        object.__setattr__(self, "edge", scalar(positive, "edge", self.edge))
        object.__setattr__(self, "steps", count("steps", self.steps))

    def nearest(self, X: Float, y: Float) -> DeclaredMean:
        """A member near least squares for scaled X (N, D), y (N,): the slopes are rounded first, then the intercept."""
        slopes: Float = np.zeros(0)
        if self.kind == "linear":
            centred = X - X.mean(axis=0)
            slopes = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
            slopes = np.array([on_grid(slope, self.edge, self.steps) for slope in slopes])
        left = y - (X @ slopes if slopes.size else 0.0)
        intercept = on_grid(float(left.mean()), self.edge, self.steps)
        return DeclaredMean("grid", intercept, tuple(slopes.tolist()), self.edge, self.steps)


def on_grid(value: float, edge: float, steps: int) -> float:
    """The member of the grid that is nearest to ``value``."""
    return edge * int(np.clip(np.rint(value / edge * steps), -steps, steps)) / steps


def for_loss(mean: DeclaredMean | None, loss: Loss) -> None:
    """Refuse a mean with a loss that depends on y otherwise than through y − f."""
    if mean is not None and (isinstance(loss, Relative | Sign) or (isinstance(loss, Interval) and loss.relative)):
        raise ValueError(
            f"mean: expected none for {loss!r}, which depends on y itself and not on y − f alone, got {shown(mean)}"
        )
