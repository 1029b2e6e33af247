"""Mercer spectra of (kernel, input law): closed forms where they exist, else Ritz values; eigenvalues of data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbounds.errors import shown
from gpbounds.inputs import Empirical, Gaussian, InputLaw, Sampler, Uniform
from gpbounds.kernels import Constant, Kernel, Matern, OnColumns, Product, SquaredExponential, Sum
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.facts import Fold, numbered
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.finite_rank import FiniteRankSpectrum, expansion
from gpbounds.validation import rigor_of

if TYPE_CHECKING:
    from gpbounds.spectra.empirical import DataSpectrum

__all__ = ["Spectrum", "spectrum"]

INSTEAD = (
    "gpbounds.rate and gpbounds.inducing_points serve every kernel for given data, inputs=Empirical(X), and for inputs "
    "to come if they simulate them, simulate=39"
)


def spectrum(kernel: Kernel, *, inputs: InputLaw, rigor: str = "auto") -> Spectrum:
    """The Mercer spectrum of ``kernel`` under the law ``inputs``: eigenvalues, tails and log-tails.

    ================================ ============================================================ ==========
    kernel × inputs                  method                                                       certified
    ================================ ============================================================ ==========
    SE × Gaussian                    geometric law (R-se-eig, R-seD, L-44, L-48), exact           yes
    SE × Gaussian with a covariance  the same after a rotation (N-cov), upper bounds to rounding   yes
    SE × Uniform                     dominated by the Gaussian case, upper bounds                 yes
    Matérn-½ × Uniform, 1-D          roots of a transcendental equation (L-49b), exact            yes
    Matérn-(p+½) × Uniform, 1-D      Ritz values (L-49c) and a grid bound, upper bounds           yes
    other Matérn, up to 3-D          Ritz (L-49c), estimates; covariances by a rotation (N-cov)   no
    constant, linear, polynomial     eigenvalues of a matrix of moments, finite rank (N-finite)   yes
    products on different columns    products of their spectra (N-tensor), upper bounds            as its parts
    sums                             all eigenvalues of the summands (N-direct), upper bounds         as its parts
    any kernel × Empirical(X)        eigenvalues of k(X, X)/N, raised by N·eps·λ_max              no
    ================================ ============================================================ ==========

    The last column is about the method; for ``Empirical(X)`` ``rigor`` decides.  ``roundings`` says whether rounding of
    tails is proved: it is for the certified methods (N-tail-rounding) except Matérn-(p+½), p ≥ 1, and spectra composed
    of it.  For squared exponential kernels on boxes bounds also use Ritz values (N-box), whose roundings are enclosed
    up to 6 lengthscales to each side.

    Parameters
    ----------
    kernel : Kernel
    inputs : Gaussian, Uniform or Empirical
    rigor : "auto", "float" or "sharp"
        For ``Empirical(X)``.  "auto": upper bounds on the eigenvalues in doubles, whose error is proved from the
        eigenvectors up to 2000 rows (N-enclosed), beyond measured as with "float".  "sharp": proved upper bounds within
        about 1e-9 of each eigenvalue or 1e-27 λ_max (N-graded), for squared exponential and Matérn kernels of
        half-integer ν, their sums and products.

    Returns
    -------
    Spectrum
        with ``eigenvalues(count)``, ``tail(M)``, ``log_tail(M)``, ``trace``, ``certified``, ``note``.

    Raises
    ------
    ValueError
        if kernel and inputs differ in dimension, or no method exists for the pair.  Products of kernels of the same
        columns have none, unless all are constant, linear or polynomial.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.inputs import Gaussian
    >>> law = spectrum(SquaredExponential(variance=2.0), inputs=Gaussian())
    >>> law.tail([0, 1, 10]).round(6).tolist()
    [2.0, 0.763932, 0.000132]
    """
    as_kernel(kernel)
    chosen = rigor_of(rigor)
    if isinstance(inputs, Empirical):
        return data_spectrum(kernel, inputs, chosen)
    if chosen == "sharp":
        raise ValueError(f"rigor: expected 'float' unless inputs=Empirical(X), got 'sharp' with {inputs!r}")
    if isinstance(inputs, Sampler):
        raise ValueError(
            f"inputs: expected Gaussian, Uniform or Empirical, got {shown(inputs)}: the spectrum under a law by "
            "example is "
            "not known; gpbounds.rate and gpbounds.inducing_points simulate it (simulate=39)"
        )
    if not isinstance(inputs, Gaussian | Uniform):
        raise ValueError(f"inputs: expected Gaussian, Uniform or Empirical, got {type(inputs).__name__}")
    for method in METHODS.get(kernel.formula_class, (_finite_rank,)):
        known = method(kernel, inputs)
        if known is not None:
            return known
    shared = kernel.formula_class is Product
    reason = ", as its factors read the same columns, or columns that depend on each other" if shared else ""
    raise ValueError(
        f"no spectrum is known for {type(kernel).__name__} kernels under {type(inputs).__name__} inputs{reason}; "
        f"{INSTEAD}"
    )


def _finite_rank(kernel: Kernel, inputs: Gaussian | Uniform) -> Spectrum | None:
    """The spectrum of a polynomial kernel; None for others."""
    weights = expansion(kernel, tuple(range(inputs.dim)))
    return None if weights is None else FiniteRankSpectrum(weights, inputs)


def _on_columns(kernel: Any, inputs: Gaussian | Uniform) -> Spectrum:
    return spectrum(kernel.kernel, inputs=inputs.marginal(kernel.columns))


def _sum(kernel: Sum, inputs: Gaussian | Uniform) -> Spectrum:
    """The spectrum of a sum whose summands are not all polynomials; the polynomial ones become one summand."""
    from gpbounds.spectra.composed import SumSpectrum

    columns = tuple(range(inputs.dim))
    polynomial: list[Kernel] = []
    others: list[Kernel] = []
    for summand in summands(kernel):
        (others if expansion(summand, columns) is None else polynomial).append(summand)
    joined = [reduce(Sum, polynomial)] if polynomial else []
    return SumSpectrum([sharpest_spectrum(k, inputs) for k in (*joined, *others)])


def summands(kernel: Kernel) -> Iterator[Kernel]:
    """The summands of a kernel, those of nested sums included."""
    if isinstance(kernel, Sum):
        yield from summands(kernel.k1)
        yield from summands(kernel.k2)
    else:
        yield kernel


def sharpest_spectrum(kernel: Kernel, inputs: InputLaw) -> Spectrum:
    """`spectrum`, but Ritz values for squared exponential kernels on boxes that are not too wide (N-box).

    >>> sharpest_spectrum(SquaredExponential(), Uniform()).source
    'N-box, L-49c'
    """
    own: Any = kernel
    if kernel.formula_class is SquaredExponential and isinstance(inputs, Uniform):
        from gpbounds.spectra.box import LARGEST, BoxSpectrum

        if (0.5 * inputs.widths <= LARGEST * own.lengthscales(inputs.dim)).all():
            return BoxSpectrum(own, inputs)
    return spectrum(kernel, inputs=inputs)


def data_spectrum(kernel: Kernel, inputs: Empirical, rigor: str) -> DataSpectrum:
    """`spectrum` for given rows."""
    from gpbounds.spectra.empirical import EmpiricalSpectrum
    from gpbounds.spectra.pairs import EnclosedSpectrum

    if rigor == "sharp":
        return EnclosedSpectrum(kernel, inputs)
    proved = EmpiricalSpectrum.proved(kernel, inputs) if rigor == "auto" else None
    return EmpiricalSpectrum(kernel, inputs) if proved is None else proved


def _product(kernel: Product, inputs: Gaussian | Uniform) -> Spectrum | None:
    """The spectrum of kernels on different columns that do not depend on each other; None for others."""
    from gpbounds.spectra.composed import TensorSpectrum

    parts = independent_factors(kernel, inputs, split=isinstance(inputs, Uniform))
    if parts is None:
        return None
    scale, factors = parts
    return TensorSpectrum([sharpest_spectrum(factor, inputs.marginal(columns)) for columns, factor in factors], scale)


def independent_factors(
    kernel: Product, inputs: Gaussian | Uniform, *, split: bool
) -> tuple[float, list[tuple[tuple[int, ...], Kernel]]] | None:
    """(constant factor, [(columns, factor), ...]); None if two factors read one column, or columns that depend."""
    scale, factors, _ = kernel.fold(_SPLIT if split else _WHOLE, tuple(range(inputs.dim)))
    read = [column for columns, _ in factors for column in columns]
    if not factors or len(set(read)) < len(read):
        return None
    if isinstance(inputs, Gaussian) and inputs.cov is not None:
        block = np.full(inputs.dim, -1)
        for i, (columns, _) in enumerate(factors):
            block[list(columns)] = i
        apart = (block[:, None] != block) & (block[:, None] >= 0) & (block >= 0)
        if np.asarray(inputs.cov)[apart].any():
            return None
    return scale, factors


Columns = tuple[int, ...]
Factors = tuple[float, list[tuple[Columns, Kernel]], tuple[Columns, Kernel]]
"""The constant factor of a kernel, the other factors with the columns that they read, and (all of these columns, the
kernel as a function of these alone)."""


def _whole(kernel: Kernel, columns: Columns) -> Factors:
    if kernel.formula_class is Constant:
        return kernel.max_variance, [], ((), kernel)
    return 1.0, [(columns, kernel)], (columns, kernel)


def _split(kernel: Any, columns: Columns) -> Factors:
    """As `_whole`, but a squared exponential kernel has one factor for each column."""
    if kernel.formula_class is not SquaredExponential:
        return _whole(kernel, columns)
    pairs = zip(columns, kernel.lengthscales(len(columns)), strict=True)
    each = [((column,), SquaredExponential(1.0, float(ell))) for column, ell in pairs]
    return kernel.variance, each, (columns, kernel)  # type: ignore[return-value]


def _narrowed(join: type[Sum] | type[Product], first: Factors, second: Factors) -> tuple[Columns, Kernel]:
    parts = first[2], second[2]
    read = tuple(sorted({column for each, _ in parts for column in each}))
    return read, join(*(k.on([read.index(c) for c in each]) if each else k for each, k in parts))


def _factors_of_sum(first: Factors, second: Factors) -> Factors:
    narrowed = _narrowed(Sum, first, second)
    return 1.0, [narrowed], narrowed


def _factors_of_product(first: Factors, second: Factors) -> Factors:
    return first[0] * second[0], first[1] + second[1], _narrowed(Product, first, second)


_WHOLE = Fold(_whole, _factors_of_sum, _factors_of_product, numbered)
_SPLIT = Fold(_split, _factors_of_sum, _factors_of_product, numbered)


def _rotated(kernel: SquaredExponential | Matern, inputs: Gaussian) -> Spectrum:
    """The spectrum under a Gaussian law with correlated columns."""
    from gpbounds.spectra.gaussian import PrincipalSpectrum, principal_axes

    rotated, independent, _ = principal_axes(kernel, inputs)
    return PrincipalSpectrum(spectrum(rotated, inputs=independent))


def _squared_exponential(kernel: SquaredExponential, inputs: Gaussian | Uniform) -> Spectrum:
    if isinstance(inputs, Gaussian) and inputs.correlated:
        return _rotated(kernel, inputs)
    lengthscales = kernel.lengthscales(inputs.dim)
    if isinstance(inputs, Uniform):
        from gpbounds.spectra.gaussian import DominatedSpectrum

        return DominatedSpectrum(kernel, inputs)
    ratios = lengthscales / inputs.stds
    if (ratios == ratios[0]).all():
        from gpbounds.spectra.gaussian import GeometricSpectrum

        return GeometricSpectrum(kernel, inputs)
    from gpbounds.spectra.gaussian import ProductSpectrum

    return ProductSpectrum(kernel, inputs)


def _matern(kernel: Matern, inputs: Gaussian | Uniform) -> Spectrum:
    if isinstance(inputs, Gaussian) and inputs.correlated:
        return _rotated(kernel, inputs)
    kernel.lengthscales(inputs.dim)
    if inputs.dim > 3:
        slow = 2.0 * kernel.nu / inputs.dim
        raise ValueError(
            f"no spectrum is known for Matern kernels in {inputs.dim} dimensions, where sums of eigenvalues beyond the "
            f"first M decrease like M^-{slow:.2g} only; {INSTEAD}"
        )
    if isinstance(inputs, Uniform) and inputs.dim == 1 and kernel.is_half_integer:
        if kernel.nu == 0.5:
            from gpbounds.spectra.matern import MaternHalfUniform

            return MaternHalfUniform(kernel, inputs)
        from gpbounds.spectra.matern import MaternUniform

        return MaternUniform(kernel, inputs)
    from gpbounds.spectra.ritz import Ritz

    return Ritz(kernel, inputs)


METHODS: dict[type, tuple[Callable[[Any, Gaussian | Uniform], Spectrum | None], ...]] = {
    OnColumns: (_on_columns,),
    Sum: (_finite_rank, _sum),
    Product: (_finite_rank, _product),
    SquaredExponential: (_squared_exponential,),
    Matern: (_matern,),
}
"""The methods for each formula under Gaussian and uniform laws, tried in turn; others may be polynomials."""
