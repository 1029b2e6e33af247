"""Kernels: matrices, diagonals, hyperparameters and their pull-backs; NumPy inputs in either precision."""

from __future__ import annotations

import numpy as np
from data import line, normal, plane
from language import BLAS, Cases, added, matern, multiplied, part, reading, se, then

cases = Cases("kernels", BLAS)

L, P = line(12, 4), plane(14, 5)
KERNELS = {
    "se": (se(1.3, 0.8), L),
    "se ard": (se(2.0, [0.5, 1.0, 3.0]), P),
    "se shared": (se(0.7, 1.4), P),
    "matern 1/2": (matern(0.5, 1.1, 0.9), L),
    "matern 3/2 ard": (matern(1.5, 0.6, [0.7, 1.5, 2.5]), P),
    "matern 5/2": (matern(2.5, 1.7, 1.2), P),
    "matern 9/2": (matern(4.5, 1.0, 0.6), L),
    "matern 0.8": (matern(0.8, 1.2, 0.7), L),
    "sum": (added(se(1.0, 2.0), matern(1.5, 0.3, 0.4)), L),
    "product": (multiplied(se(1.0, [2.0, 1.0, 1.5]), matern(0.5, 2.0, 3.0)), P),
    "nested": (added(multiplied(se(1.0, 2.0), matern(2.5, 0.5, 1.0)), se(0.1, 0.2)), L),
}
for name, (kernel, data) in KERNELS.items():
    cases.add(f"{name}, k(X, X)", then(kernel, "()", X1=data.X))
    cases.add(f"{name}, k(X, Z)", then(kernel, "()", X1=data.X, X2=data.Z))
    cases.add(f"{name}, diagonal", then(kernel, "diag", X=data.X))
    cases.add(f"{name}, hyperparameters", reading(kernel, "parameter_names", "log_parameters", "max_variance"))
    count = {"se ard": 4, "matern 3/2 ard": 4, "sum": 4, "product": 6, "nested": 6}.get(name, 2)
    moved = then(kernel, "with_log_parameters", values=np.linspace(-0.4, 0.5, count))
    cases.add(f"{name}, other hyperparameters", moved)
    if name != "matern 0.8":
        slope = normal(len(data.X), len(data.Z), seed=1)
        cases.add(f"{name}, pull", then(kernel, "pull", X1=data.X, X2=data.Z, cotangent=slope))
        cases.add(
            f"{name}, pull of a square", then(kernel, "pull", X1=data.Z, X2=data.Z, cotangent=slope[: len(data.Z)])
        )
        cases.add(f"{name}, pull of the diagonal", then(kernel, "pull_diag", X=data.X, cotangent=slope[:, 0]))

cases.add("se, far apart", then(se(1.0, 0.1), "()", X1=[[0.0], [3.8], [4.0], [1e8]]))
cases.add("se, equal points", then(se(1.0, 0.1), "()", X1=[[1e6], [1e6], [1e6 + 1e-7]]))
cases.add("matern 1/2, near and far", then(matern(0.5), "()", X1=[[0.0], [1e-12], [700.0]]))
cases.add("se, one number", then(se(2.0, 0.5), "()", X1=[0.0, 0.5]))
cases.add("se, single precision", then(se(1.3, 0.8), "()", X1=L.X.astype(np.float32)), "1e-6")
cases.add("matern 3/2, single precision", then(matern(1.5, 1.3, 0.8), "()", X1=L.X.astype(np.float32)), "1e-6")
SQUARED = np.array([0.0, 1e-20, 0.3, 1.0, 7.0, 1e3])
for name, kernel in {"se": se(1.5, 0.3), "matern 3/2": matern(1.5, 0.5, 2.0), "matern 0.8": matern(0.8)}.items():
    cases.add(f"{name}, correlation", then(kernel, "correlation", squared=SQUARED), "bits")
    cases.add(f"{name}, covariance", then(kernel, "covariance", squared=SQUARED.copy()), "bits")
    if name != "matern 0.8":
        cases.add(f"{name}, slope", then(kernel, "slope", squared=SQUARED), "bits")
    cases.add(f"{name}, lengthscales", then(kernel, "lengthscales", dim=3), "bits")
cases.add("matern, half-integers", [part(matern(nu), "is_half_integer") for nu in (0.5, 0.8, 1.5)])
cases.add("se, k1 + k2", then(se(1.0, 2.0), "__add__", other=matern(0.5)))
cases.add("se, k1 * k2", then(se(1.0, 2.0), "__mul__", other=matern(0.5)))
