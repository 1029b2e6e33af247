"""Covariance functions on NumPy or CuPy arrays."""

from gpbounds.kernels.base import Kernel, OnColumns, Product, Stationary, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.inner_products import Linear, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.squared_exponential import SquaredExponential

__all__ = [
    "Constant",
    "Kernel",
    "Linear",
    "Matern",
    "OnColumns",
    "Polynomial",
    "Product",
    "SquaredExponential",
    "Stationary",
    "Sum",
]
