"""The kernel that a user passes to an estimator: an object, a name, or nothing."""

from __future__ import annotations

from typing import Any

from gpbounds.kernels import Kernel
from gpbounds.kernels.named import WORDS, Family, family


def passed_kernel(kernel: Any) -> Kernel | Family:
    """A kernel of gpbounds, or the family that a name stands for; None is the squared exponential.

    A kernel object of scikit-learn becomes one of gpbounds with the same values, and `gpbounds.kernels.White` for its
    WhiteKernels.

    Raises
    ------
    ValueError
        for anything else; the message names the classes and the words.

    >>> passed_kernel("linear+rbf"), passed_kernel(None)
    (Family(text='linear+rbf'), Family(text='se'))
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel is None or isinstance(kernel, str):
        return family("se" if kernel is None else kernel)
    from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

    if isinstance(kernel, SklearnKernel):
        from gpbounds.renyi.readers.sklearn import kernel_of_sklearn

        return kernel_of_sklearn(kernel)
    raise ValueError(
        f"kernel: expected a kernel of gpbounds.kernels such as SquaredExponential() or Matern(1.5), a name ({WORDS}, "
        f"or several joined by +), a kernel of sklearn.gaussian_process.kernels, or None, got {kernel!r}"
    )


def own_kernel(kernel: Any) -> Any:
    """``kernel``, where it is an object of scikit-learn the kernel of gpbounds in its place; names and None stay."""
    return kernel if kernel is None or isinstance(kernel, str) else passed_kernel(kernel)
