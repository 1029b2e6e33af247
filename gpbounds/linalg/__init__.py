"""Linear algebra on NumPy or CuPy: matrices checked, factorised, multiplied in place, solved; pivoting."""

from gpbounds.linalg.psd import AUTO_LADDER, Cholesky, Eigen, Jitter, cholesky, eigen
from gpbounds.linalg.triangular import solve_triangular

__all__ = ["AUTO_LADDER", "Cholesky", "Eigen", "Jitter", "cholesky", "eigen", "solve_triangular"]
