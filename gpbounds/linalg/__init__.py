"""Linear algebra on NumPy or CuPy: matrix checks, factorisations, in-place products, solves, pivoting."""

from gpbounds.linalg.psd import AUTO_LADDER, Cholesky, Eigen, Jitter, cholesky, eigen
from gpbounds.linalg.triangular import solve_triangular

__all__ = ["AUTO_LADDER", "Cholesky", "Eigen", "Jitter", "cholesky", "eigen", "solve_triangular"]
