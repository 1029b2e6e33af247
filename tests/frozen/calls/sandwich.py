"""Both roots of x − 1 − log x = 2γ, their elementary bounds, Prop. 4 and the predictive chain."""

from __future__ import annotations

import numpy as np
from language import BITS, Cases, call, then

cases = Cases("sandwich", BITS)

GAMMAS = np.array([0.0, 1e-300, 1e-30, 1e-8, 0.01, 0.2499, 0.25, 0.3, 1.0, 10.0, 350.0, 400.0, 1e10, 1e308, np.inf])
FINITE = GAMMAS[:-1]
cases.add("roots", call("gpbounds.sandwich.roots", gamma=GAMMAS))
cases.add("roots, a number", call("gpbounds.sandwich.roots", gamma=0.01))
cases.add("roots, less 1", call("gpbounds.sandwich.roots", gamma=GAMMAS, minus_one=True))
cases.add("roots, certified", call("gpbounds.sandwich.roots", gamma=GAMMAS, certified=True))
cases.add("roots, less 1, certified", call("gpbounds.sandwich.roots", gamma=GAMMAS, minus_one=True, certified=True))
cases.add("roots, many", call("gpbounds.sandwich.roots", gamma=np.geomspace(1e-12, 1e2, 40)))
for form in ("sharpest", "printed"):
    cases.add(f"explicit, {form}", call("gpbounds.sandwich.explicit", gamma=FINITE[:-1], form=form))
    cases.add(f"explicit, {form}, a number", call("gpbounds.sandwich.explicit", gamma=0.3, form=form))

BOUND = call(
    "gpbounds.Bound", value=0.02, side="upper", confidence=0.9, claim="L-43", assumptions=("iid.",), certified=True
)
cases.add("sandwich", call("gpbounds.sandwich.sandwich", kl=0.01))
cases.add("sandwich, array", call("gpbounds.sandwich.sandwich", kl=[0.0, 1e-6, 0.5, 20.0]))
cases.add("sandwich, of a bound", call("gpbounds.sandwich.sandwich", kl=BOUND))
cases.add("sandwich, not certified", call("gpbounds.sandwich.sandwich", kl=BOUND, certified=False))
cases.add("sandwich, mahalanobis", call("gpbounds.sandwich.sandwich", kl=0.3, mahalanobis=[0.0, 0.5, 0.77]))
cases.add("sandwich, to_dict", then(call("gpbounds.sandwich.sandwich", kl=0.3), "to_dict"))

PREDICTIVE = {
    "a number": {"joint": 1e-3, "eta": 0.05},
    "printed": {"joint": 1e-3, "eta": 0.05, "form": "printed"},
    "array": {"joint": [1e-4, 0.1], "eta": [[0.3], [0.149], [1e-6]]},
    "train": {"joint": 0.5, "eta": 0.1, "train": 0.2},
    "of a bound": {"joint": BOUND, "eta": 0.01, "test_inputs": "mercer"},
    "of a bound, fourier, printed": {"joint": BOUND, "eta": 0.01, "test_inputs": "fourier", "form": "printed"},
}
for label, arguments in PREDICTIVE.items():
    cases.add(f"predictive, {label}", call("gpbounds.sandwich.predictive", **arguments))
cases.add("predictive, to_dict", then(call("gpbounds.sandwich.predictive", joint=1e-3, eta=0.05), "to_dict"))
