"""Factorisations with a stated jitter, and the whitening that is streamed over the rows."""

from __future__ import annotations

import numpy as np
from data import covariance, line, normal, numbers, outputs, plane, repeated
from language import BITS, BLAS, Cases, added, call, find, matern, part, reading, se, then

cases = Cases("whitening", BLAS)

A = covariance(6)
singular = np.ones((4, 4))
for name, arguments in {
    "plain": {"A": A},
    "jitter": {"A": A, "jitter": 0.5},
    "auto": {"A": singular, "jitter": "auto"},
    "one": {"A": np.array([[4.0]])},
}.items():
    made = call("gpbounds.psd.cholesky", **arguments)
    n = len(arguments["A"])
    cases.add(f"cholesky, {name}", reading(made, "L", "jitter", "logdet"))
    rule = "1e-6" if name == "auto" else None
    cases.add(
        f"cholesky, {name}, solve", [then(made, "solve", B=normal(n, 2)), then(made, "solve_lower", B=normal(n))], rule
    )
cases.add("eigen", reading(call("gpbounds.psd.eigen", A=A), "values", "vectors", "rounding", "clipped"))
cases.add("eigen, singular", part(call("gpbounds.psd.eigen", A=singular, rounding=1e-9), "values"))
cases.add(
    "eigen, vectors",
    reading(call("gpbounds.psd.eigen", A=np.diag([1.0, 3.0, 2.0]), vectors=True), "values", "rounding"),
)
cases.add("eigen, empty", reading(call("gpbounds.psd.eigen", A=np.zeros((0, 0)), vectors=True), "values", "vectors"))

L, P, R, D = line(), plane(), repeated(), outputs()
ON = {
    "line": {"kernel": se(1.3, 0.9), "X": L.X, "Z": L.Z, "y": L.y},
    "plane": {"kernel": matern(1.5, 1.0, [1.0, 2.0, 3.0]), "X": P.X, "Z": P.Z, "y": P.y, "chunk": 7},
    "repeated": {"kernel": added(se(1.0, 1.5), matern(0.5, 0.2)), "X": R.X, "Z": R.Z},
    "outputs": {"kernel": se(1.0, [1.0, 10.0]), "X": D.X, "Z": D.Z, "y": D.y, "jitter": 1e-6},
    "auto": {"kernel": se(1.0, 1.0), "X": L.X, "Z": [[0.0], [0.0], [1.0]], "jitter": "auto"},
}
for name, arguments in ON.items():
    read = ("N", "M", "gram", "projected", "squares", "residual", "known", "rank", "jitter", "trace")
    cases.add(
        f"whiten, {name}",
        reading(call("gpbounds.whitening.whiten", **arguments), *read),
        "1e-6" if name == "auto" else None,
    )
whitener = call("gpbounds.whitening.inducing", kernel=se(1.3, 0.9), Z=L.Z)
cases.add("inducing", reading(whitener, "M", "Z", "chol.L", "chol.jitter"))
cases.add("inducing, whiten", then(whitener, "whiten", X=L.X))
cases.add("inducing, times", then(whitener, "times", X=L.X, A=normal(30, 2), chunk=11))
cases.add("inducing, lift", then(whitener, "lift", A=normal(6, 2)))
cases.add("inducing, chunks", then(whitener, "chunks", X=L.X, chunk=12))
cases.add("inducing, transposed times", then(whitener, "transposed_times", X=L.X, A=normal(6, 2), chunk=12))
cases.add("slices", call("gpbounds.whitening.slices", N=5, chunk=3), BITS)
cases.add("matched", call("gpbounds.whitening.matched", X=R.X, Z=R.Z), BITS)
cases.add("as_targets", call("gpbounds.whitening.as_targets", y=D.y, X=D.X), BITS)
cases.add("as_targets, one column", call("gpbounds.whitening.as_targets", y=[1, 2, 3], X=L.X[:3]), BITS)
V = 0.4 * numbers(3, 5)
cases.add("residual_diagonal", call("gpbounds.whitening.residual_diagonal", diagonal=np.ones(5), V=V))
cases.add(
    "residual_diagonal, rounding",
    call("gpbounds.whitening.residual_diagonal", diagonal=np.ones(2), V=np.ones((1, 2)) + 1e-16),
)


def picky(amount: float) -> float:
    """Succeeds from a jitter of 1e-9 on."""
    if amount < 1e-9:
        raise find("gpbounds.NotPositiveDefinite")("too small")
    return amount


for jitter in ("auto", 1e-3):
    cases.add(
        f"with_jitter, {jitter}",
        call("gpbounds.whitening.with_jitter", attempt=picky, kernel=se(4.0), jitter=jitter),
        BITS,
    )
cases.add("slices, one", call("gpbounds.whitening.slices", N=3), BITS)
cases.add("matched, none", call("gpbounds.whitening.matched", X=L.X[:4], Z=L.Z), BITS)
cases.add(
    "matched, the sign of zero", call("gpbounds.whitening.matched", X=np.zeros((2, 1)), Z=-np.zeros((1, 1))), BITS
)
