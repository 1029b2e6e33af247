"""Mercer spectra of (kernel, input law): closed forms where they exist, else Ritz values; eigenvalues of data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from gpbounds.inputs import Empirical, Gaussian, InputLaw, Sampler, Uniform
from gpbounds.kernels import Constant, Kernel, Matern, SquaredExponential, Sum
from gpbounds.kernels.base import OnColumns, Product, as_kernel
from gpbounds.rigor import rigor_of
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.monomials import expansion

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

    "Certified" is the method.  The errors of eigenvalues of k(X, X) in doubles are measured; ``rigor="sharp"`` proves
    bounds.  Whether the rounding of a tail is proved says ``roundings``: it is counted for all
    certified methods (N-tail-rounding) but Matérn-(p+½), p ≥ 1, and what contains it.  For squared exponential kernels
    on boxes bounds also use Ritz values (N-box), whose roundings are enclosed up to 6 lengthscales to each side.

    Parameters
    ----------
    kernel : Kernel
    inputs : Gaussian, Uniform or Empirical
    rigor : "auto", "float" or "sharp"
        For ``Empirical(X)``.  "auto": upper bounds on the eigenvalues in doubles, whose error is proved from the
        eigenvectors up to 2000 rows (N-enclosed), beyond measured as with "float".  "sharp": about 1e-9 of each above
        it or 1e-27 λ_max (N-graded), for squared exponential and Matérn kernels of half-integer ν, their sums and
        products.

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
            f"inputs: expected Gaussian, Uniform or Empirical, got {inputs!r}: the spectrum under a law by example is "
            "not known; gpbounds.rate and gpbounds.inducing_points simulate it (simulate=39)"
        )
    if not isinstance(inputs, Gaussian | Uniform):
        raise ValueError(f"inputs: expected Gaussian, Uniform or Empirical, got {type(inputs).__name__}")
    if isinstance(kernel, OnColumns):
        return spectrum(kernel.kernel, inputs=inputs.marginal(kernel.columns))
    if (weights := expansion(kernel, tuple(range(inputs.dim)))) is not None:
        from gpbounds.spectra.finite_rank import FiniteRankSpectrum

        return FiniteRankSpectrum(weights, inputs)
    if isinstance(kernel, Sum):
        return _sum(kernel, inputs)
    if isinstance(kernel, Product) and (over_columns := _product(kernel, inputs)) is not None:
        return over_columns
    if isinstance(kernel, SquaredExponential | Matern) and isinstance(inputs, Gaussian) and inputs.correlated:
        from gpbounds.spectra.principal import PrincipalSpectrum, principal_axes

        rotated, independent, _ = principal_axes(kernel, inputs)
        return PrincipalSpectrum(spectrum(rotated, inputs=independent))
    if isinstance(kernel, SquaredExponential):
        return _squared_exponential(kernel, inputs)
    if isinstance(kernel, Matern):
        return _matern(kernel, inputs)
    shared = isinstance(kernel, Product)
    reason = ", as its factors read the same columns, or columns that depend on each other" if shared else ""
    raise ValueError(
        f"no spectrum is known for {type(kernel).__name__} kernels under {type(inputs).__name__} inputs{reason}; "
        f"{INSTEAD}"
    )


def _sum(kernel: Sum, inputs: Gaussian | Uniform) -> Spectrum:
    """The spectrum of a sum whose summands are not all polynomials; those that are count as one."""
    from gpbounds.spectra.direct_sum import SumSpectrum

    columns = tuple(range(inputs.dim))
    polynomial: list[Kernel] = []
    others: list[Kernel] = []
    for summand in summands(kernel):
        (others if expansion(summand, columns) is None else polynomial).append(summand)
    joined = [reduce(Sum, polynomial)] if polynomial else []
    return SumSpectrum([sharpest_spectrum(k, inputs) for k in (*joined, *others)])


def summands(kernel: Kernel) -> Iterator[Kernel]:
    """The summands of a sum of kernels, also of sums in it."""
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
    if isinstance(kernel, SquaredExponential) and isinstance(inputs, Uniform):
        from gpbounds.spectra.box import LARGEST, BoxSpectrum

        lengthscales = kernel.lengthscales(inputs.dim)
        if (0.5 * inputs.widths <= LARGEST * lengthscales).all():
            return BoxSpectrum(kernel, inputs)
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
    from gpbounds.spectra.tensor import TensorSpectrum

    parts = independent_factors(kernel, inputs, split=isinstance(inputs, Uniform))
    if parts is None:
        return None
    scale, factors = parts
    return TensorSpectrum([sharpest_spectrum(factor, inputs.marginal(columns)) for columns, factor in factors], scale)


def independent_factors(
    kernel: Product, inputs: Gaussian | Uniform, *, split: bool
) -> tuple[float, list[tuple[tuple[int, ...], Kernel]]] | None:
    """(a constant factor, the others with their columns) if these differ and do not depend on each other; else None."""
    scale, factors = _factors(kernel, tuple(range(inputs.dim)), split=split)
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


def _factors(
    kernel: Kernel, columns: tuple[int, ...], *, split: bool
) -> tuple[float, list[tuple[tuple[int, ...], Kernel]]]:
    """(a constant factor, the other factors with the columns that they read); with ``split`` one for each column of a
    squared exponential kernel."""
    if isinstance(kernel, Product):
        first, second = (_factors(k, columns, split=split) for k in (kernel.k1, kernel.k2))
        return first[0] * second[0], first[1] + second[1]
    if isinstance(kernel, OnColumns):
        if max(kernel.columns) >= len(columns):
            raise ValueError(f"columns: expected numbers below {len(columns)}, got {list(kernel.columns)}")
        return _factors(kernel.kernel, tuple(columns[c] for c in kernel.columns), split=split)
    if isinstance(kernel, Constant):
        return kernel.variance, []
    if isinstance(kernel, Sum):
        return 1.0, [_narrowed(kernel, columns)]
    if split and isinstance(kernel, SquaredExponential):
        lengthscales = kernel.lengthscales(len(columns))
        pairs = zip(columns, lengthscales, strict=True)
        return kernel.variance, [((column,), SquaredExponential(1.0, float(ell))) for column, ell in pairs]
    return 1.0, [(columns, kernel)]


def _narrowed(kernel: Kernel, columns: tuple[int, ...]) -> tuple[tuple[int, ...], Kernel]:
    """(the columns that a kernel on ``columns`` reads, the kernel as a function of these alone)."""
    if isinstance(kernel, OnColumns):
        return _narrowed(kernel.kernel, tuple(columns[c] for c in kernel.columns))
    if isinstance(kernel, Constant):
        return (), kernel
    if not isinstance(kernel, Sum | Product):
        return columns, kernel
    parts = [_narrowed(k, columns) for k in (kernel.k1, kernel.k2)]
    read = tuple(sorted({column for each, _ in parts for column in each}))
    first, second = (k.on([read.index(c) for c in each]) if each else k for each, k in parts)
    return read, type(kernel)(first, second)


def _squared_exponential(kernel: SquaredExponential, inputs: Gaussian | Uniform) -> Spectrum:
    lengthscales = kernel.lengthscales(inputs.dim)
    if isinstance(inputs, Uniform):
        from gpbounds.spectra.dominated import DominatedSpectrum

        return DominatedSpectrum(kernel, inputs)
    ratios = lengthscales / inputs.stds
    if (ratios == ratios[0]).all():
        from gpbounds.spectra.geometric import GeometricSpectrum

        return GeometricSpectrum(kernel, inputs)
    from gpbounds.spectra.product import ProductSpectrum

    return ProductSpectrum(kernel, inputs)


def _matern(kernel: Matern, inputs: Gaussian | Uniform) -> Spectrum:
    kernel.lengthscales(inputs.dim)
    if inputs.dim > 3:
        slow = 2.0 * kernel.nu / inputs.dim
        raise ValueError(
            f"no spectrum is known for Matern kernels in {inputs.dim} dimensions, where sums of eigenvalues beyond the "
            f"first M decrease like M^-{slow:.2g} only; {INSTEAD}"
        )
    if isinstance(inputs, Uniform) and inputs.dim == 1 and kernel.is_half_integer:
        if kernel.nu == 0.5:
            from gpbounds.spectra.matern_half import MaternHalfUniform

            return MaternHalfUniform(kernel, inputs)
        from gpbounds.spectra.matern_uniform import MaternUniform

        return MaternUniform(kernel, inputs)
    from gpbounds.spectra.ritz import Ritz

    return Ritz(kernel, inputs)
