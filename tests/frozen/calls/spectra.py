"""Mercer spectra, every method: eigenvalues, tails and their logarithms; the laws of the inputs."""

from __future__ import annotations

from data import line, plane
from language import (
    BITS,
    BLAS,
    Cases,
    Seeded,
    added,
    call,
    empirical,
    gaussian,
    matern,
    multiplied,
    reading,
    se,
    then,
    uniform,
)

cases = Cases("spectra", BITS)

L, P = line(25), plane(30)
PAIRS = {
    "geometric 1-D": (se(2.0, 0.7), gaussian(1.5), BITS),
    "geometric 3-D": (se(1.0, [0.5, 1.0, 2.0]), gaussian([0.5, 1.0, 2.0]), BITS),
    "geometric, long": (se(1.0, 1e4), gaussian(), BITS),
    "product 2-D": (se(1.5, [0.5, 2.0]), gaussian(1.0, dim=2), BITS),
    "product 3-D": (se(1.0, 1.0), gaussian([0.3, 1.0, 2.0]), BITS),
    "dominated 1-D": (se(1.0, 0.3), uniform(), BITS),
    "dominated 2-D": (se(1.0, [0.5, 1.0]), uniform([0.0, -1.0], [1.0, 2.0]), BITS),
    "matern 1/2": (matern(0.5, 1.2, 0.4), uniform(0.0, 2.0), BITS),
    "matern 3/2": (matern(1.5, 1.0, 0.5), uniform(), BLAS),
    "matern 5/2": (matern(2.5, 0.8, 1.5), uniform(-1.0, 1.0), BLAS),
    "matern 3/2 gaussian": (matern(1.5, 1.0, 0.8), gaussian(), BLAS),
    "matern 0.8": (matern(0.8, 1.0, 0.5), uniform(), BLAS),
    "matern 5/2 2-D": (matern(2.5, 1.0, [0.7, 1.1]), uniform([0.0, 0.0], [1.0, 1.0]), BLAS),
    "rows, se": (se(1.0, 0.8), empirical(L.X), BLAS),
    "rows, sum": (added(se(1.0, 2.0), matern(1.5, 0.3)), empirical(P.X), BLAS),
    "rows, product": (multiplied(se(1.0, 2.0), matern(0.5)), empirical(L.X), BLAS),
}
for name, (kernel, inputs, rule) in PAIRS.items():
    law = call("gpbounds.spectrum", kernel=kernel, inputs=inputs)
    few = 8 if name.startswith("matern 5/2 2-D") else 12
    cases.add(f"{name}, eigenvalues", then(law, "eigenvalues", count=few), rule)
    cases.add(f"{name}, tails", then(law, "tail", M=[0, 1, 2, 5, 12]), rule)
    far = 8 if name == "rows, se" else 20
    cases.add(f"{name}, log tails", then(law, "log_tail", M=[[0, 3], [5, far]]), rule)
    cases.add(f"{name}, about", reading(law, "trace", "certified", "source", "note"), rule)
cases.add(
    "geometric, log tails far out",
    then(call("gpbounds.spectrum", kernel=se(), inputs=gaussian()), "log_tail", M=[1e3, 1e6]),
)
cases.add("one number", then(call("gpbounds.spectra.spectrum", kernel=se(), inputs=gaussian()), "tail", M=4))

cases.add("gaussian", reading(gaussian([1.0, 2.0]), "std", "dim", "stds"))
cases.add("gaussian, shared", reading(gaussian(0.5, dim=3), "std", "dim", "stds"))
cases.add("gaussian, draws", then(gaussian([1.0, 2.0]), "sample", N=4, rng=Seeded(3)))
cases.add("uniform", reading(uniform(-1.0, [1.0, 2.0]), "low", "high", "dim", "widths"))
cases.add("uniform, draws", then(uniform(-1.0, [1.0, 2.0]), "sample", N=4, rng=Seeded(3)))
cases.add("empirical", reading(empirical([0.0, 1.0, 3.0]), "X", "N", "dim"))
cases.add("empirical of the room", reading(call("gpbounds.inputs.Empirical", X=[[0.0, 1.0]]), "X", "N", "dim"))
