"""gpbounds computes, certifies and verifies what theory says about Gaussian processes.

>>> import gpbounds
>>> kernel = gpbounds.SquaredExponential(lengthscale=0.5)
>>> plan = gpbounds.inducing_points(kernel, N=100_000, alpha=1.0, target=0.1)
>>> plan.M
45

Each name is loaded on first use, so ``import gpbounds`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpbounds.bound import Bound as Bound
    from gpbounds.bound import Plan as Plan
    from gpbounds.errors import NonFinite as NonFinite
    from gpbounds.errors import NotConverged as NotConverged
    from gpbounds.errors import NotPositiveDefinite as NotPositiveDefinite
    from gpbounds.errors import RoundingWarning as RoundingWarning
    from gpbounds.inputs import Empirical as Empirical
    from gpbounds.inputs import Gaussian as Gaussian
    from gpbounds.inputs import Sampler as Sampler
    from gpbounds.inputs import Uniform as Uniform
    from gpbounds.kernels import Matern as Matern
    from gpbounds.kernels import SquaredExponential as SquaredExponential
    from gpbounds.rates import inducing_points as inducing_points
    from gpbounds.rates import rate as rate
    from gpbounds.row_noise import at_unit_noise as at_unit_noise
    from gpbounds.spectra import spectrum as spectrum

__version__ = "0.1.0"

_MODULE_OF = {
    "Bound": "bound",
    "Empirical": "inputs",
    "Gaussian": "inputs",
    "Matern": "kernels",
    "NonFinite": "errors",
    "NotConverged": "errors",
    "NotPositiveDefinite": "errors",
    "Plan": "bound",
    "RoundingWarning": "errors",
    "Sampler": "inputs",
    "SquaredExponential": "kernels",
    "Uniform": "inputs",
    "at_unit_noise": "row_noise",
    "inducing_points": "rates",
    "rate": "rates",
    "spectrum": "spectra",
}
_PACKAGES = (
    *("audit", "claims", "divergences", "inputs", "iterative", "kdpp", "kernels", "likelihoods", "losses"),
    *("lowrank", "montecarlo", "pacbayes", "plotting", "rates", "reference", "renyi", "rows"),
    *("sandwich", "spectra", "vecchia", "whitening"),
)

__all__ = sorted([*_MODULE_OF, *_PACKAGES])


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"gpbounds.{_MODULE_OF[name]}"), name)
    if name in _PACKAGES or name == "sources":  # the former name of rows
        return importlib.import_module(f"gpbounds.{name}")
    raise AttributeError(f"module 'gpbounds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
