"""Mercer spectra of (kernel, input law): closed forms where they exist, else Ritz values; eigenvalues of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbounds.inputs import Empirical, Gaussian, InputLaw, Sampler, Uniform
from gpbounds.kernels import Constant, Kernel, Matern, SquaredExponential, Sum
from gpbounds.kernels.base import OnColumns, Product
from gpbounds.spectra.base import Spectrum

if TYPE_CHECKING:
    from gpbounds.spectra.empirical import DataSpectrum

__all__ = ["Spectrum", "spectrum"]

SUPPORTED = (
    "SquaredExponential x Gaussian or Uniform (any dimension), Matern x Gaussian or Uniform (dimension 1 to 3), "
    "products of these on different columns, if those are independent, any kernel x Empirical(X)"
)


def spectrum(kernel: Kernel, *, inputs: InputLaw, certified: bool = False) -> Spectrum:
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
    products on different columns    products of their spectra (N-tensor), upper bounds            as its parts
    any kernel × Empirical(X)        eigenvalues of k(X, X)/N, which allow for N·eps·λ_max        yes
    ================================ ============================================================ ==========

    Parameters
    ----------
    kernel : Kernel
    inputs : Gaussian, Uniform or Empirical
    certified : bool
        True, for ``Empirical(X)`` only: proved upper bounds on the eigenvalues of the exact matrix, about 1e-9 of each
        above it or 1e-27 λ_max (N-graded), for squared exponential and Matérn kernels of half-integer ν, their sums and
        products.

    Returns
    -------
    Spectrum
        with ``eigenvalues(count)``, ``tail(M)``, ``log_tail(M)``, ``trace``, ``certified``, ``note``.

    Raises
    ------
    ValueError
        if kernel and inputs differ in dimension, or no method exists for the pair.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.inputs import Gaussian
    >>> law = spectrum(SquaredExponential(variance=2.0), inputs=Gaussian())
    >>> law.tail([0, 1, 10]).round(6).tolist()
    [2.0, 0.763932, 0.000132]
    """
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel: expected a Kernel of gpbounds.kernels, got {type(kernel).__name__}")
    if isinstance(inputs, Empirical):
        return data_spectrum(kernel, inputs, certified=certified)
    if certified:
        raise ValueError(
            f"certified: expected True only with inputs=Empirical(X), got {inputs!r}: other spectra say in their "
            "attribute `certified` whether they are proved"
        )
    if isinstance(inputs, Sampler):
        raise ValueError(
            f"inputs: expected Gaussian, Uniform or Empirical, got {inputs!r}: the spectrum under a law by example is "
            "not known; gpbounds.rate and gpbounds.inducing_points simulate it (simulate=39)"
        )
    if not isinstance(inputs, Gaussian | Uniform):
        raise ValueError(f"inputs: expected Gaussian, Uniform or Empirical, got {type(inputs).__name__}")
    if isinstance(kernel, OnColumns):
        return spectrum(kernel.kernel, inputs=inputs.marginal(kernel.columns))
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
    pair = isinstance(kernel, Sum | Product)
    reason = ": the eigenvalues of a sum or product are not those of its parts" if pair else ""
    raise ValueError(
        f"no spectrum is known for {type(kernel).__name__} kernels under {type(inputs).__name__} inputs{reason}. "
        f"Plans for given data, inputs=Empirical(X), hold for every kernel. Supported: {SUPPORTED}."
    )


def data_spectrum(kernel: Kernel, inputs: Empirical, *, certified: bool = False) -> DataSpectrum:
    """`spectrum` for given rows."""
    from gpbounds.spectra.empirical import EmpiricalSpectrum
    from gpbounds.spectra.enclosed import EnclosedSpectrum

    return (EnclosedSpectrum if certified else EmpiricalSpectrum)(kernel, inputs)


def _product(kernel: Product, inputs: Gaussian | Uniform) -> Spectrum | None:
    """The spectrum of kernels on different columns that do not depend on each other; None for others."""
    from gpbounds.spectra.box import LARGEST, BoxSpectrum
    from gpbounds.spectra.tensor import TensorSpectrum

    scale, factors = _factors(kernel, tuple(range(inputs.dim)), split=isinstance(inputs, Uniform))
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

    def part(columns: tuple[int, ...], factor: Kernel) -> Spectrum:
        law = inputs.marginal(columns)
        if not (isinstance(factor, SquaredExponential) and isinstance(law, Uniform)):
            return spectrum(factor, inputs=law)
        narrow = (0.5 * law.widths <= LARGEST * factor.lengthscales(law.dim)).all()
        return BoxSpectrum(factor, law) if narrow else spectrum(factor, inputs=law)

    return TensorSpectrum([part(columns, factor) for columns, factor in factors], scale)


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
    if split and isinstance(kernel, SquaredExponential):
        lengthscales = kernel.lengthscales(len(columns))
        pairs = zip(columns, lengthscales, strict=True)
        return kernel.variance, [((column,), SquaredExponential(1.0, float(ell))) for column, ell in pairs]
    return 1.0, [(columns, kernel)]


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
        raise ValueError(f"no spectrum is known for Matern kernels in {inputs.dim} dimensions. Supported: {SUPPORTED}.")
    if isinstance(inputs, Uniform) and inputs.dim == 1 and kernel.is_half_integer:
        if kernel.nu == 0.5:
            from gpbounds.spectra.matern_half import MaternHalfUniform

            return MaternHalfUniform(kernel, inputs)
        from gpbounds.spectra.matern_uniform import MaternUniform

        return MaternUniform(kernel, inputs)
    from gpbounds.spectra.ritz import Ritz

    return Ritz(kernel, inputs)
