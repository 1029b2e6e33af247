"""Mercer spectra of (kernel, input law): closed forms where they exist, else Ritz values; eigenvalues of data."""

from __future__ import annotations

from gpbounds.inputs import Empirical, Gaussian, InputLaw, Sampler, Uniform
from gpbounds.kernels import Kernel, Matern, Product, SquaredExponential, Sum
from gpbounds.spectra.base import Spectrum

__all__ = ["Spectrum", "spectrum"]

SUPPORTED = (
    "SquaredExponential x Gaussian or Uniform (any dimension), Matern x Gaussian or Uniform (dimension 1 to 3), "
    "any kernel x Empirical(X)"
)


def spectrum(kernel: Kernel, *, inputs: InputLaw) -> Spectrum:
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
    any kernel × Empirical(X)        eigenvalues of k(X, X)/N                                     yes
    ================================ ============================================================ ==========

    Parameters
    ----------
    kernel : Kernel
    inputs : Gaussian, Uniform or Empirical

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
        from gpbounds.spectra.empirical import EmpiricalSpectrum

        return EmpiricalSpectrum(kernel, inputs)
    if isinstance(inputs, Sampler):
        raise ValueError(
            f"inputs: expected Gaussian, Uniform or Empirical, got {inputs!r}: the spectrum under a law by example is "
            "not known; gpbounds.rate and gpbounds.inducing_points simulate it (simulate=39)"
        )
    if not isinstance(inputs, Gaussian | Uniform):
        raise ValueError(f"inputs: expected Gaussian, Uniform or Empirical, got {type(inputs).__name__}")
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
