"""Linear algebra: factorisations, triangles, products in place, pivoting, conjugate gradients; NumPy or CuPy."""

from gpbounds.linalg.psd import AUTO_LADDER, Cholesky, Eigen, Jitter, cholesky, eigen
from gpbounds.linalg.triangular import solve_triangular

__all__ = ["AUTO_LADDER", "Cholesky", "Eigen", "Jitter", "cholesky", "eigen", "solve_triangular"]
