"""Natural-gradient steps for a free law q(v) = N(w, CCᵀ), which stay positive definite.

With Λ = (CCᵀ)⁻¹ and the derivatives w̄, S̄ of J in the mean and the covariance, a step of rate ρ is

    Λ' = Λ + ρ(2/β)S̄ + ½ρ²(2/β)²S̄Λ⁻¹S̄,      w' = w − (ρ/β)Λ'⁻¹w̄.

Without its last term this is the natural gradient in the parameters (Λw, Λ): for J of a Gaussian likelihood, ρ = 1
reaches the optimum from everywhere.  Losses that are convex in f keep Λ' positive definite then, for ρ ≤ 1.  Direct
losses and Student-t do not; with the last term Λ' is positive definite for all S̄ (Lin, Schmidt and Khan, 2020).

A direct loss curves more in the mean than its slope in the variance says: its steps need a smaller ρ.

Everything is computed from C: with E = (2/β)CᵀS̄C, S' = CA⁻¹Cᵀ for A = I + ρE + ½ρ²E².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.triangle import joined, size_of, triangle_of
from gpbounds.arrays import Float
from gpbounds.linalg import cholesky
from gpbounds.linalg.products import gram
from gpbounds.linalg.triangular import inverse_factor, mirrored, multiply_rows

LEAST, RAMP = 1e-4, 5
"""The rate of the first step, and the number of steps after which it has its full value."""


@dataclass(frozen=True)
class NaturalSteps:
    """Natural steps of the last entries of a vector, which hold a law (`fitting.parameters.LawBlock`).

    Attributes
    ----------
    M : int
        Number of inducing variables.
    beta : float
        Factor of KL(q‖p) in J.
    rate : float
        ρ in (0, 1].
    convex : bool
        Whether the loss is convex in f, so that the last term is left out.
    """

    M: int
    beta: float
    rate: float
    convex: bool

    @property
    def size(self) -> int:
        """Number of entries of the law."""
        return size_of(self.M)

    def rate_at(self, step: int) -> float:
        """ρ of step 1, 2, …: for ρ < 1 it rises geometrically from 1e-4 over the first steps."""
        if self.rate == 1.0 or step > RAMP:
            return self.rate
        return float(LEAST * (self.rate / LEAST) ** ((step - 1) / RAMP))

    def moved(self, entries: Float, slopes: Float, step: int) -> Float:
        """The law after a step, from its entries (size,) and the derivatives of J in them.

        Raises
        ------
        NotPositiveDefinite
            if the loss is not convex, although `convex` says so.
        """
        M, rate = self.M, self.rate_at(step)
        C, C_bar = triangle_of(entries, M), triangle_of(slopes, M)
        diagonal = np.exp(np.diagonal(C))
        np.fill_diagonal(C, diagonal)
        np.fill_diagonal(C_bar, np.diagonal(C_bar) / diagonal)  # from the derivatives in log C_ii
        E = mirrored(multiply_rows(C, C_bar.T.copy(), transposed=True))  # upper triangle of C̄ᵀC, lower one of 2CᵀS̄C
        E *= rate / self.beta
        A = E if self.convex else E + 0.5 * gram(E)
        A[np.diag_indices(M)] += 1.0
        turned = A[::-1, ::-1].copy()
        L = cholesky(turned, name="the precision of q after a natural step", overwrite=True).L
        T = inverse_factor(L).T[::-1, ::-1].copy()  # A⁻¹ = TTᵀ
        factor = multiply_rows(T, C, transposed=True)  # CT
        mean = entries[:M] - rate / self.beta * (factor @ (factor.T @ slopes[:M]))
        return joined(mean, factor, np.log(np.diagonal(factor)))
