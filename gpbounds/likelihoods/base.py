"""The interface of a likelihood: density, derivatives in f, their ranges, and means over f ~ N(m, v)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, broadcastable, is_cupy, namespace, over_blocks
from gpbounds.bound import outward
from gpbounds.errors import NotConverged, shown
from gpbounds.numerics.hermite import Series
from gpbounds.records import Named
from gpbounds.validation import as_log_parameters, choice, exponentials, flag, instance, positive, scalar

# The record of proved ranges: for every real f they contain p(y|f) and its first two derivatives in f.

Pair = tuple[Any, Any]

BELOW = 1.0 - 1e-9
"""Lowers a computed curvature: more than a hundred thousand times its rounding."""
FARTHEST = 1e100
"""Targets, means and variances beyond it are refused."""
FORMS = ("sharpest", "printed")
"""The exact infimum and supremum; Table 1 of Wei et al."""


@dataclass(frozen=True, eq=False)
class DerivativeRange:
    """(low, high) of φ(f) = p(y|f), φ' and φ'' over all real f, one entry a y.

    Attributes
    ----------
    density, first, second : pairs of float or array
        low ≤ φ ≤ high; the same for φ' and φ''.  Limits at ±∞ count.
    form : "sharpest" or "printed"
    repaired : bool
        Whether these are the printed numbers with their misprints corrected.
    claim : str
        Ledger id.
    holds : bool
        False where the printed numbers are not bounds.
    note : str
        What is wrong with the printed form, if anything is.
    """

    density: Pair
    first: Pair
    second: Pair
    form: str
    claim: str
    holds: bool = True
    note: str = ""
    repaired: bool = False

    def __str__(self) -> str:
        def pair(name: str, ends: Pair) -> str:
            low, high = outward(float(np.min(ends[0])), "lower"), outward(float(np.max(ends[1])), "upper")
            return f"{name} in [{low}, {high}]" + (" at most" if np.ndim(ends[0]) or np.ndim(ends[1]) else "")

        rows = [pair(n, e) for n, e in (("φ", self.density), ("φ'", self.first), ("φ''", self.second))]
        form = f"{self.form}, repaired" if self.repaired else self.form
        text = f"{', '.join(rows)} ({self.claim}, {form})."
        return f"{text}\n  {self.note}" if self.note else text


def over(y: Array, *ends: Any) -> tuple[Any, ...]:
    """``ends`` in the shape of y; plain floats where y is a single number in host memory."""
    xp = namespace(y)
    arrays = [xp.broadcast_to(xp.asarray(e, dtype=np.float64), y.shape) for e in ends]
    return tuple(float(a) if xp is np and not y.shape else xp.array(a) for a in arrays)


def record(
    y: Array,
    ends: tuple[Any, ...],
    form: str,
    claim: str,
    *,
    holds: bool = True,
    note: str = "",
    repaired: bool = False,
) -> DerivativeRange:
    """A `DerivativeRange` from six ends: density low, high, first low, high, second low, high."""
    a, b, c, d, e, f = over(y, *ends)
    return DerivativeRange((a, b), (c, d), (e, f), choice("form", form, FORMS), claim, holds, note, repaired)


# The interface of a likelihood: density, derivatives in f, their ranges, and means over f ~ N(m, v).

Numbers = ArrayLike | Array


class Likelihood(Named, ABC):
    """A likelihood p(y|f) of one real latent value f.

    Arrays broadcast; NumPy in, NumPy out, CuPy in, CuPy out, always in double precision; numbers in, numbers out.
    Throughout, ℓ = log p and φ = p as functions of f.
    """

    log_concave: ClassVar[bool] = False
    """Whether it is known that ℓ is concave for every y and all parameters."""

    # A likelihood defines these, on flat arrays of equal length; `_targets` has checked y and put it in its convention.
    # With ``gradient``, means over f are followed by ∂/∂m, ∂/∂v, and the derivatives in each of `log_parameters`.
    @abstractmethod
    def _targets(self, y: Array) -> Array: ...

    @abstractmethod
    def _log_density(self, y: Array, f: Array) -> Array: ...

    @abstractmethod
    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]: ...

    @abstractmethod
    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]: ...

    @abstractmethod
    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]: ...

    @abstractmethod
    def _log_expected_power(self, y: Array, m: Array, v: Array, power: float, gradient: bool) -> tuple[Array, ...]: ...

    @abstractmethod
    def _predictive_mean(self, m: Array, v: Array) -> Array: ...

    @abstractmethod
    def _range(self, y: Array, form: str, repaired: bool) -> DerivativeRange: ...

    @abstractmethod
    def _predictive_cdf(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]: ...

    @abstractmethod
    def _predictive_quantile(self, p: Array, m: Array, v: Array) -> Array: ...

    def checked_targets(self, y: Numbers) -> Float:
        """The targets in the convention of `slope_series`, as a flat array.  Errors as in `log_density`."""
        _, (targets,) = broadcastable(y=y)
        return np.asarray(self._targets(targets)).reshape(-1)

    def slope_series(self, y: Float, m: Float, v: Float) -> Series | None:
        """The Hermite series of ℓ' under N(m, v), for checked targets and v > 0; None unless log p is proved concave.

        A likelihood that returns a series states that log p(y|f) is concave in f for every y (N-fisher).
        """
        return None

    def least_curvature(self, y: Float, low: Float, high: Float) -> Float:
        """Numbers c ≥ 0 with −ℓ'' ≥ c between ``low`` and ``high``; 0 where nothing is known."""
        return np.zeros(np.shape(low))

    def _known_targets(self, y: Array) -> Array:
        """As `_targets`, for targets that it has accepted before."""
        return y

    def _parameter_derivatives(self, y: Array, f: Array) -> tuple[Array, ...]:
        """∂ log p(y|f)/∂ log_parameters, one array for each parameter."""
        return ()

    def log_density(self, y: Numbers, f: Numbers) -> Any:
        """log p(y|f), relatively accurate in the tails; −∞ only where it leaves the range of doubles.

        Raises
        ------
        ValueError, NonFinite
            for a y the likelihood has no density for, shapes that do not broadcast, NaN or infinity.
        """
        return self._pointwise(lambda y, f: (self._log_density(y, f),), y, f)[0]

    def density(self, y: Numbers, f: Numbers) -> Any:
        """p(y|f).  Errors as in `log_density`."""
        return self._pointwise(lambda y, f: (namespace(f).exp(self._log_density(y, f)),), y, f)[0]

    def derivatives(self, y: Numbers, f: Numbers) -> tuple[Any, Any, Any]:
        """ℓ', ℓ'', ℓ''': the derivatives of log p(y|f) in f.  Errors as in `log_density`."""
        first, second, third = self._pointwise(self._derivatives, y, f)
        return first, second, third

    def parameter_derivatives(self, y: Numbers, f: Numbers) -> Any:
        """The derivatives of log p(y|f) in `log_parameters`, shape (q, ...): 0 rows without parameters.

        Errors as in `log_density`.
        """
        xp, (targets, values) = broadcastable(y=y, f=f)
        self._within(y=targets)
        parts = over_blocks(self._parameter_derivatives, xp, self._targets(targets), values)
        return xp.stack(parts) if parts else xp.zeros((0, *np.broadcast_shapes(targets.shape, values.shape)))

    def density_derivatives(self, y: Numbers, f: Numbers) -> tuple[Any, Any, Any]:
        """φ, φ' = φℓ' and φ'' = φ(ℓ'² + ℓ''); 0 where φ underflows.  Errors as in `log_density`."""

        def density_and_slopes(y: Array, f: Array) -> tuple[Array, ...]:
            xp = namespace(f)
            value = xp.exp(self._log_density(y, f))
            first, second, _ = self._derivatives(y, f)
            parts = (value * first, value * (first * first + second))
            return (value, *(xp.where(value > 0.0, part, 0.0) for part in parts))

        value, first, second = self._pointwise(density_and_slopes, y, f)
        return value, first, second

    def derivative_range(
        self, y: Numbers, form: Literal["sharpest", "printed"] = "sharpest", *, repaired: bool = False
    ) -> DerivativeRange:
        """Ranges of φ = p(y|f), φ' and φ'' over all real f: Table 1 of Wei et al., sharpened (D-30 … D-36).

        Parameters
        ----------
        y : array
            Targets; they matter for `Bernoulli` and `Poisson` only.
        form : "sharpest" or "printed"
            The exact infimum and supremum (limits at ±∞ count), to rounding; or Table 1 as it is printed, for
            comparison: the record says where it is false.
        repaired : bool
            Correct the misprints of Table 1; only with ``form="printed"``.

        Raises
        ------
        ValueError
            for a y the likelihood has no density for, another form, or ``repaired`` with the sharpest one.
        """
        choice("form", form, FORMS)
        flag("repaired", repaired)
        if repaired and form != "printed":
            raise ValueError(f"repaired: expected form='printed' with it, got {shown(form)}, which has no misprints")
        _, (targets,) = broadcastable(y=y)
        return self._range(self._targets(targets), form, repaired)

    def log_expected_density(
        self,
        y: Numbers,
        m: Numbers,
        v: Numbers,
        *,
        gradient: bool = False,
        parameters: bool = False,
        checked: bool = False,
    ) -> Any:
        """log E p(y|f), f ~ N(m, v): minus the log-loss DLM term (D-02), the log predictive density.

        Computed in closed form where one exists (D-05, D-06); otherwise by quadrature: the relative error of E p is
        below 1e-11, or the logarithm is right to a few roundings.  v = 0 is the point mass at m.

        Parameters
        ----------
        y : array
            Targets.
        m, v : arrays
            Mean and variance of f, v ≥ 0.
        gradient : bool
            Return (value, ∂/∂m, ∂/∂v); at v = 0 their limits ℓ' and ½(ℓ'² + ℓ'').
        parameters : bool
            With ``gradient``: return the derivatives in each of `log_parameters`, too, in their order.
        checked : bool
            The arguments are flat arrays of doubles, and the targets are known to be admitted; on a GPU nothing is then
            tested, which would need reads.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, NaN or infinity.
        NotConverged
            where the quadrature does not reach its accuracy; with ``checked`` on a GPU the results are NaN there.
        """
        return self._expectation(self._log_expected_density, y, m, v, gradient, parameters, checked)

    def log_expected_power(
        self,
        y: Numbers,
        m: Numbers,
        v: Numbers,
        power: float,
        *,
        gradient: bool = False,
        parameters: bool = False,
        checked: bool = False,
    ) -> Any:
        """log E p(y|f)^a, f ~ N(m, v), for a power a in (0, 1]: −a times the loss of black-box α-divergences (D-03).

        At a = 1 it is `log_expected_density`; divided by a, it tends to `expected_log_density` as a → 0.  Accuracy,
        parameters and errors are those of `log_expected_density`, which holds for the power p^a: for a Gaussian in
        closed form, otherwise by quadrature.  A Student-t needs a > 1/(ν + 1), so that p^a has finite mass.

        >>> from gpbounds.likelihoods import Poisson
        >>> model = Poisson("exp")
        >>> [round(float(model.log_expected_power(3, 1.0, 0.5, a)) / a, 6) for a in (1.0, 0.5, 1e-6)]
        [-1.948294, -2.04866, -2.282101]
        >>> round(float(model.expected_log_density(3, 1.0, 0.5)), 6)
        -2.282102
        """
        a = scalar(positive, "power", power)
        if a > 1.0:
            raise ValueError(f"power: expected a number in (0, 1], got {shown(power)}")

        def function(y: Array, m: Array, v: Array, with_gradient: bool) -> tuple[Array, ...]:
            return self._log_expected_power(y, m, v, a, with_gradient)

        return self._expectation(function, y, m, v, gradient, parameters, checked)

    def predictive_mean(self, m: Numbers, v: Numbers) -> Any:
        """E y, y ~ p(y|f), f ~ N(m, v): the probability of a label 1, the mean of a count, m otherwise.

        A Student-t with ν ≤ 1 has no mean: m is its median.

        >>> from gpbounds.likelihoods import Poisson
        >>> round(float(Poisson("exp").predictive_mean(1.0, 0.5)), 6)  # e^(m + v/2)
        3.490343
        """
        xp, (means, variances) = broadcastable(m=m, v=v)
        return over_blocks(lambda *a: (self._predictive_mean(*a),), xp, means, _variances(variances))[0]

    def expected_log_density(
        self,
        y: Numbers,
        m: Numbers,
        v: Numbers,
        *,
        gradient: bool = False,
        parameters: bool = False,
        checked: bool = False,
    ) -> Any:
        """E log p(y|f), f ~ N(m, v): the ELBO's term; at most `log_expected_density` (Jensen, D-02).

        Accuracy, parameters and errors are those of `log_expected_density`; the gradient's limits at v = 0 are ℓ' and
        ½ℓ''.
        """
        return self._expectation(self._expected_log_density, y, m, v, gradient, parameters, checked)

    def predictive_cdf(self, y: Numbers, m: Numbers, v: Numbers) -> tuple[Any, Any]:
        """P(Y < y) and P(Y ≤ y) for a target Y ~ p(y|f), f ~ N(m, v); the two are equal where Y is continuous.

        Labels count as 0 and 1.  Closed forms, or quadrature over f with absolute errors below 1e-9 for v up to 100.
        Parameters and errors are those of `log_expected_density`.

        >>> from gpbounds.likelihoods import Poisson
        >>> [round(float(p), 6) for p in Poisson("exp").predictive_cdf(2, 0.0, 0.0)]  # 2/e and 2.5/e
        [0.735759, 0.919699]
        """
        function = lambda y, m, v, gradient: self._predictive_cdf(y, m, v)  # noqa: E731
        below, up_to = self._expectation(function, y, m, v, True, False)
        return below, up_to

    def predictive_quantile(self, p: Numbers, m: Numbers, v: Numbers) -> Any:
        """The least y with P(Y ≤ y) ≥ p, for a target Y ~ p(y|f), f ~ N(m, v): the inverse of `predictive_cdf`.

        Labels count as 0 and 1.  The root of P(Y ≤ y) = p is found to 1e-12 in probability for a Student-t; a count may
        be the next one where p is within 1e-9 of P(Y ≤ y), the accuracy of `predictive_cdf`.

        Parameters
        ----------
        p : array in (0, 1)
        m, v : arrays
            Mean and variance of f, v ≥ 0.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, and for a quantile of a count that is not below 2^53.

        >>> from gpbounds.likelihoods import Poisson
        >>> Poisson("exp").predictive_quantile([0.025, 0.5, 0.975], 1.0, 0.25).tolist()
        [0.0, 3.0, 9.0]
        """
        xp, (probabilities, means, variances) = broadcastable(p=p, m=m, v=v)
        if not bool(((probabilities > 0.0) & (probabilities < 1.0)).all()):
            raise ValueError(f"p: expected numbers in (0, 1), got {float(probabilities.min())!r}")
        arrays = (probabilities, means, _variances(variances))
        return over_blocks(lambda *a: (self._predictive_quantile(*a),), xp, *arrays)[0]

    @staticmethod
    def _within(**numbers: Array) -> None:
        """Refuse numbers whose squares and cubes are no doubles; a device is not asked."""
        for name, array in numbers.items():
            if not is_cupy(array) and array.size and not float(np.abs(array).max()) <= FARTHEST:
                raise ValueError(f"{name}: expected numbers up to {FARTHEST:g} in size, got {np.abs(array).max():.3g}")

    def _pointwise(self, function: Callable[..., tuple[Array, ...]], y: Numbers, f: Numbers) -> tuple[Any, ...]:
        xp, (targets, values) = broadcastable(y=y, f=f)
        targets = self._targets(targets)
        self._within(y=targets)
        return over_blocks(function, xp, targets, values)

    def _expectation(
        self,
        function: Callable[..., tuple[Array, ...]],
        y: Any,
        m: Any,
        v: Any,
        gradient: bool,
        parameters: bool,
        checked: bool = False,
    ) -> Any:
        for name, value in (("gradient", gradient), ("parameters", parameters), ("checked", checked)):
            flag(name, value)
        if parameters and not gradient:
            raise ValueError("parameters: expected False without gradient=True, got True")
        if checked and is_cupy(m):
            values = function(self._known_targets(y), m, v, gradient)
        else:
            xp, (targets, means, variances) = broadcastable(y=y, m=m, v=v)
            targets = self._targets(targets)
            if not checked:  # else a law of training, whose objective is tested as a whole
                self._within(y=targets, m=means, v=variances)
            values = over_blocks(lambda *a: function(*a, gradient), xp, targets, means, _variances(variances))
            if xp is not np:
                _require_converged(values[0])
        if not gradient:
            return values[0]
        return values if parameters else values[:3]

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of `log_parameters`: positive numbers of the likelihood itself, such as the noise."""
        return tuple(field.name for field in fields(self) if field.type in ("float", float))  # type: ignore[arg-type]

    @property
    def log_parameters(self) -> Float:
        """Logarithms of the trainable parameters, shape (q,)."""
        return np.log(np.array([getattr(self, name) for name in self.parameter_names], dtype=np.float64))

    def with_log_parameters(self, values: ArrayLike) -> Likelihood:
        """The same likelihood with other parameters."""
        names = self.parameter_names
        parameters = exponentials(as_log_parameters(values, names), names)
        return replace(self, **dict(zip(names, parameters, strict=True)))  # type: ignore[type-var]


def as_likelihood(likelihood: object) -> Likelihood:
    """The likelihood, or an error that says what one is."""
    expected = "one of gpbounds.likelihoods, such as Poisson('exp')"
    known: Likelihood = instance("likelihood", likelihood, Likelihood, expected)
    return known


def _require_converged(values: Array) -> None:
    """Refuse the NaN that a quadrature on a GPU returns where it does not converge."""
    failed = int(namespace(values).isnan(values).sum())
    if failed:
        raise NotConverged(
            f"expected even and odd nodes of the trapezoidal rule to agree, and {failed} of {values.size} integrals "
            "did not: are there counts beyond 1e8, variances beyond 1e6, or targets or variances beyond 1e100?"
        )


def _variances(v: Array) -> Array:
    """v ≥ 0 everywhere."""
    if bool((v < 0.0).any()):
        raise ValueError(f"v: expected variances >= 0, got {float(v.min())!r}")
    return v
