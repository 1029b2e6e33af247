"""Covariance functions on NumPy or CuPy arrays."""

from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.inner_products import Linear, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.rational_quadratic import RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.kernels.white import White, separated

__all__ = [
    "Constant",
    "Kernel",
    "Linear",
    "Matern",
    "OnColumns",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "White",
    "separated",
]
