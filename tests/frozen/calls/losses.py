"""Bounded losses under a Gaussian prediction: values, expectations, derivatives, rounding allowances."""

from __future__ import annotations

import operator

import numpy as np
from data import numbers
from language import BITS, Applied, Cases, call, part, then

cases = Cases("losses", BITS)

LOSSES = {
    "band": call("gpbounds.losses.Band", epsilon=0.6),
    "squared": call("gpbounds.losses.Squared", epsilon=0.8),
    "exponential": call("gpbounds.losses.Exponential", epsilon=0.5),
    "relative": call("gpbounds.losses.Relative", epsilon=0.7),
    "interval": call("gpbounds.losses.Interval", low=-1.0, high=2.0),
    "interval, relative": call("gpbounds.losses.Interval", low=-0.1, high=0.2, relative=True),
}
y = np.array([1.0, -2.0, 0.5])
m = np.array([[1.0], [0.4], [-3.0], [1e3]])
v = np.array([0.0, 1e-20, 1e-3, 0.3, 50.0, 1e6])[:, None, None]
for name, loss in LOSSES.items():
    cases.add(f"{name}, value", then(loss, "value", y=y, f=[[1.0], [0.4], [-1.4], [1e9]]))
    cases.add(f"{name}, expectation", then(loss, "expectation", y=y, m=m, v=v))
    cases.add(f"{name}, expectation, a number", then(loss, "expectation", y=1.0, m=0.7, v=0.2))
    slopes = then(loss, "expectation", y=y, m=m, v=v[1:], gradient=True)
    cases.add(f"{name}, gradient", Applied(operator.itemgetter(slice(1, None)), slopes))
    cases.add(
        f"{name}, allowance",
        then(loss, "allowance", y=y, m=m[:2], v=v[1:5], mean_error=1e-14, variance_error=[[[1e-16]]]),
    )
    cases.add(f"{name}, to_dict", [then(loss, "to_dict"), part(loss, "name")])
    cases.add(f"{name}, from_dict", then(call("gpbounds.losses.from_dict", record=then(loss, "to_dict")), "to_dict"))
cases.add(
    "outside_probability",
    call(
        "gpbounds.losses.outside_probability",
        low=[-1.0, 0.0, 3.0],
        high=[1.0, 0.0, 1e9],
        m=[[0.0], [3.0]],
        v=[[[0.0]], [[1.0]], [[1e4]]],
    ),
)
cases.add("outside_probability, a number", call("gpbounds.losses.outside_probability", low=0.0, high=1.0, m=0.2, v=0.1))
for seed in range(3):
    low, width = numbers(6, seed=seed, low=-2.0), numbers(6, seed=60 + seed)
    options = {"low": low, "high": low + width, "m": numbers(6, seed=70 + seed), "v": width**2}
    cases.add(f"outside_probability, seed {seed}", call("gpbounds.losses.outside_probability", **options))
