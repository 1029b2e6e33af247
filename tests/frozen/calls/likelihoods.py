"""Likelihoods: densities, derivatives and their ranges, and both means under a Gaussian f with their gradients."""

from __future__ import annotations

import numpy as np
from language import BITS, Cases, call, then

cases = Cases("likelihoods", BITS)

LIKELIHOODS = {
    "gaussian": (call("gpbounds.likelihoods.Gaussian", noise=0.5), np.array([-1.0, 0.3, 40.0])),
    "probit": (call("gpbounds.likelihoods.Bernoulli", link="probit"), np.array([1, -1, 1])),
    "logit": (call("gpbounds.likelihoods.Bernoulli", link="logit"), np.array([0, 1, 0])),
    "poisson exp": (call("gpbounds.likelihoods.Poisson", link="exp"), np.array([0, 3, 100])),
    "poisson softplus": (call("gpbounds.likelihoods.Poisson", link="softplus"), np.array([0, 3, 25])),
    "student": (call("gpbounds.likelihoods.StudentT", df=4.0, scale=1.0), np.array([0.0, 8.0, -60.0])),
    "student, narrow": (call("gpbounds.likelihoods.StudentT", df=1.5, scale=0.1), np.array([0.0, 0.3, -2.0])),
}
RANGES = {
    "sharp": {},
    "corrected": {"form": "printed", "repaired": True},
    "printed": {"form": "printed"},
}
f = np.array([[-30.0], [-0.5], [0.0], [1.5], [6.0]])
m, v = np.array([[-4.0], [0.5]]), np.array([0.0, 1e-8, 0.7, 30.0])[:, None, None]
for name, (likelihood, y) in LIKELIHOODS.items():
    for method in ("density", "log_density", "derivatives", "density_derivatives"):
        cases.add(f"{name}, {method}", then(likelihood, method, y=y, f=f))
    for label, options in RANGES.items():
        cases.add(f"{name}, range, {label}", then(likelihood, "derivative_range", y=y, **options))
    for method in ("expected_log_density", "log_expected_density"):
        cases.add(f"{name}, {method}", then(likelihood, method, y=y, m=m, v=v))
        cases.add(f"{name}, {method}, gradient", then(likelihood, method, y=y, m=m, v=v[1:], gradient=True))
        cases.add(f"{name}, {method}, a number", then(likelihood, method, y=float(y[0]), m=0.2, v=0.4))
    cases.add(f"{name}, to_dict", then(likelihood, "to_dict"))
    record = then(likelihood, "to_dict")
    cases.add(f"{name}, from_dict", then(call("gpbounds.likelihoods.from_dict", record=record), "to_dict"))
