"""From an optimised model to a certificate: round θ, rebuild Q, evaluate, in this order (ledger P-44)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, Scaling, as_mean, as_scalings
from gpbounds.pacbayes.certificate.posteriors import Posterior
from gpbounds.pacbayes.certificate.record import Certificate
from gpbounds.pacbayes.certificate.rows import Scaled, as_data
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.validation import function, instance

Rule = Callable[[Kernel, Float, Float], Posterior]
"""(kernel at θ̂, scaled X, scaled y) → the record that defines Q at θ̂."""


def issue_certificate(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Kernel,
    rebuild: Rule,
    *,
    grid: HyperGrid,
    loss: Loss,
    delta: float,
    inputs: Scaling | None = None,
    outputs: Scaling | None = None,
    mean: DeclaredMean | None = None,
    charges: Iterable[Charge] = (),
    nonrigorous: bool = False,
) -> Certificate:
    """Round an optimised θ to the grid, rebuild Q there, and certify that Q.

    θ̂ = clip then round of ln θ;  Q = rebuild(θ̂);  B = kl⁻¹(R_S(Q), (KL(Q‖P^θ̂) + ln|Θ| + ln(ξ(N)/δ))/N), rounded up.

    Claim P-44 (Reeb et al., PAC-GP, §3.1).  R_S and KL of the Q at the unrounded θ, with ln|Θ| added, do
    not give a bound: that Q would cost KL(Q_θ‖P^θ̂), which is usually infinite.  ``rebuild`` may choose noise, Z, M, the
    power, a_M and B at θ̂ freely, and may optimise them again on the same data (P-49).

    Parameters
    ----------
    X, y : arrays (N, D) and (N,)
        Raw data, float64.
    kernel : Kernel
        With the optimised hyperparameters, on the grid or not.
    rebuild : function of (kernel, X, y) to Exact, Sparse, Free or Whitened
        Receives the kernel at θ̂ and the scaled data, with targets minus the mean.
    grid, loss, delta, inputs, outputs, mean, charges, nonrigorous
        As in `Certificate.issue`.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `Certificate.issue`; for a grid whose names are not those of the kernel.

    >>> import numpy as np
    >>> from gpbounds import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> from gpbounds.pacbayes.certificate import Exact
    >>> x = np.linspace(0.0, 1.0, 200)
    >>> certificate = issue_certificate(
    ...     x, np.sin(4.0 * x), SquaredExponential(0.73, 0.41), lambda kernel, X, y: Exact(0.1),
    ...     grid=HyperGrid.shared(-3.0, 3.0, 12), loss=Band(0.5), delta=0.05)
    >>> certificate.indices, round(certificate.bound, 3), certificate.check(x, np.sin(4.0 * x)).confirmed
    ((5, 4), 0.101, True)
    """
    raw_X, raw_y = as_data(X, y)
    inputs, outputs = as_scalings(inputs, outputs)
    as_mean(mean)
    instance("grid", grid, HyperGrid, "a HyperGrid")
    function("rebuild", rebuild, "a function of (kernel, X, y) that returns the record of Q")
    rounded = priors.with_hyperparameters(as_kernel(kernel), grid.round(priors.hyperparameters(kernel)))
    posterior = rebuild(rounded, *Scaled(inputs, outputs, mean).apply(raw_X, raw_y))
    if not isinstance(posterior, Posterior):
        raise ValueError(
            f"rebuild: expected it to return Exact, Sparse, Free or Whitened, got {type(posterior).__name__}"
        )
    return Certificate.issue(
        raw_X,
        raw_y,
        posterior,
        rounded,
        grid=grid,
        loss=loss,
        delta=delta,
        inputs=inputs,
        outputs=outputs,
        mean=mean,
        charges=charges,
        nonrigorous=nonrigorous,
    )
