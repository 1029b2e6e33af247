"""Covariance functions on NumPy or CuPy arrays."""

from gpbounds.kernels.base import Kernel, Product, Stationary, Sum
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.squared_exponential import SquaredExponential

__all__ = ["Kernel", "Matern", "Product", "SquaredExponential", "Stationary", "Sum"]
