"""Conjugate gradients for several right-hand sides with one operator, preconditioned, on NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Callable

from gpbounds.arrays import Array, namespace

Operator = Callable[[Array], Array]


def conjugate_gradients(
    times: Operator, precondition: Operator, B: Array, *, enough: Callable[[Array], bool], steps: int, every: int = 1
) -> Array:
    """An approximation X of A⁻¹B, starting at X = 0; solved columns do not change.

    Parameters
    ----------
    times : (N, P) -> (N, P)
        V ↦ AV for a symmetric positive definite A.
    precondition : (N, P) -> (N, P)
        R ↦ M⁻¹R for a symmetric positive definite M that approximates A.
    B : array (N, P)
    enough : (P,) -> bool
        Returns True to stop, from the energies rᵀM⁻¹r of the residuals r = b − Ax.
    steps : int
        Largest number of products with A.
    every : int
        ``enough`` is asked before every so many steps: on a GPU the answer is a read, which waits for the device.

    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> X = conjugate_gradients(lambda V: A @ V, lambda R: R, np.eye(2), enough=lambda e: e.max() < 1e-20, steps=9)
    >>> bool(np.allclose(A @ X, np.eye(2)))
    True
    """
    xp = namespace(B)
    X, R = xp.zeros_like(B), B.copy()
    Z = precondition(R)
    D, energies = Z.copy(), (R * Z).sum(axis=0)
    for step in range(steps):
        if step % every == 0 and enough(energies):
            break
        AD = times(D)
        curvatures = (D * AD).sum(axis=0)
        lengths = xp.where(curvatures > 0.0, energies / xp.where(curvatures > 0.0, curvatures, 1.0), 0.0)
        X += lengths * D
        R -= lengths * AD
        Z = precondition(R)
        following = (R * Z).sum(axis=0)
        D = Z + xp.where(energies > 0.0, following / xp.where(energies > 0.0, energies, 1.0), 0.0) * D
        energies = following
    return X
