"""Proved upper ends of a certificate's R_S, KL and bound, from the recorded numbers and the rows alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.divergences import pairs
from gpbounds.kernels.matrices import EnclosedKernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.losses.balls import enclosed_sum
from gpbounds.pacbayes.certificate import statement
from gpbounds.pacbayes.certificate.declarations import for_loss
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Whitened
from gpbounds.pacbayes.certificate.rows import Raw
from gpbounds.pacbayes.certificate.statement import Line, Proved, RiskStatement
from gpbounds.rigor import above, at_bits, below

BITS = 256
"""Precision of sums of balls."""


def prove(certificate: RiskStatement, rows: Raw) -> Proved:
    """R_S and KL of the Q that the record defines, enclosed, and the bound from their upper ends.

    Claims N-proved-kl, N-proved-risk.  Kernels are exact functions of x; x, y − m(x), Z, noise, jitter and the numbers
    of Q are the doubles of the scaled rows and of the record.  Everything else is exact arithmetic, enclosed: kernel
    entries (N-pairs, N-pairlog), factorisations and solves (N-verified), matrix products (N-slices), Gaussian means of
    the loss and the final formula (Arb balls).

    Raises
    ------
    ValueError, NotPositiveDefinite
        where something cannot be proved: a kernel or a loss without enclosures, numbers that could overflow, a matrix
        that is singular to within the rounding of its entries, a KL without a finite upper end.
    """
    start = time.perf_counter()
    found = ends(certificate, rows)
    bound = statement.risk_bound(found.risk, found.kl, certificate.count, rows.shape[0], certificate.delta)
    return Proved(
        risk=found.risk,
        kl=found.kl,
        risk_below=found.risk_below,
        kl_below=found.kl_below,
        bound=bound,
        moved=bound - certificate.bound,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True)
class Ends:
    """R_S(Q) and KL(Q‖P), each between two proved numbers."""

    risk: float
    kl: float
    risk_below: float
    kl_below: float


def ends(certificate: RiskStatement, rows: Raw) -> Ends:
    """R_S and KL of the Q that the record defines, enclosed; errors as `prove`."""
    kernel = EnclosedKernel.of(certificate.kernel)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        kl, losses = _enclosed(certificate, kernel, rows)
    with at_bits(BITS):
        risk = losses / rows.shape[0]
        kl_below, kl_above, risk_below, risk_above = below(kl), above(kl), below(risk), above(risk)
    if not math.isfinite(kl_above) or math.isnan(risk_above):
        raise ValueError("posterior: expected a KL(Q‖P) with a finite upper end, but the proof has none")
    return Ends(min(max(risk_above, 0.0), 1.0), max(kl_above, 0.0), max(risk_below, 0.0), max(kl_below, 0.0))


def _enclosed(certificate: RiskStatement, kernel: EnclosedKernel, rows: Raw) -> tuple[Any, Any]:
    """KL(Q‖P) and the sum of the expected losses, as balls."""
    for_loss(certificate.mean, certificate.loss)
    units, loss = (certificate.inputs, certificate.outputs, certificate.mean), certificate.loss

    def parts() -> Iterator[tuple[Float, Float]]:
        return rows.parts(*units)

    if isinstance(certificate.posterior, Exact):
        (X, y), *others = parts()
        if others:
            raise ValueError(
                "posterior: expected a sparse one for rows that are read by partitions, got the exact GP posterior, "
                "which needs all rows in memory"
            )
        kl, law = pairs.full_law(kernel, X, y, certificate.posterior.noise)
        return kl, enclosed_sum(loss, y, *_numbers(law))
    q = _sparse(certificate.posterior, kernel, parts)
    total: Any = 0
    for X, y in parts():
        sums = enclosed_sum(loss, y, *_numbers(q.latent(X)))
        with at_bits(BITS):
            total = sums + total
    return q.kl, total


def _numbers(law: pairs.Latent) -> tuple[Any, ...]:
    return law.mean, law.variance, law.mean_error, law.variance_error


def _sparse(posterior: Posterior, kernel: EnclosedKernel, parts: pairs.Parts) -> pairs.SparseLaw:
    if isinstance(posterior, Sparse):
        jitter = float(posterior.jitter)
        return pairs.collapsed_law(kernel, parts, posterior.Z, posterior.noise, posterior.power, jitter)
    if isinstance(posterior, Free):
        return pairs.free_law(kernel, posterior.Z, posterior.mean, posterior.cov, float(posterior.jitter))
    if isinstance(posterior, Whitened):
        return pairs.whitened_law(kernel, posterior.Z, posterior.mean, posterior.factor, float(posterior.jitter))
    raise ValueError(f"posterior: expected Exact, Sparse, Free or Whitened, got {type(posterior).__name__}")


def lines(certificate: RiskStatement, rows: Raw) -> tuple[list[Line], Proved | None]:
    """The lines of a report about the proof, and the proved numbers; without a proof, one failed line and None."""
    try:
        proved = prove(certificate, rows)
    except ValueError as error:
        return [Line("proof", "failed", f"R_S and KL cannot be proved: {error}")], None
    findings = [
        _number("kl proof", "KL(Q‖P)", certificate.kl, proved.kl_below, proved.kl),
        _number("risk proof", "R_S", certificate.risk, proved.risk_below, proved.risk),
    ]
    text = (
        f"R(Q) ≤ {proved.bound!r} is proved in {proved.seconds:.3g} s, given the declarations: the bound moves by "
        f"{proved.moved:+.2g}"
    )
    if proved.moved <= 0.0:
        findings.append(Line("proof", "confirmed", f"{text}, and the stated one holds."))
    else:
        findings.append(Line("proof", "failed", f"{text}, so that the stated one is not proved."))
    return findings, proved


def _number(name: str, title: str, stated: float, lower: float, upper: float) -> Line:
    """The line about a stated number, which fails if the number is proved to be too small."""
    text = f"{title} is between {lower!r} and {upper!r}, proved; stated {stated!r}"
    if stated < lower:
        return Line(name, "failed", f"{text}, which is too small.")
    return Line(name, "confirmed", f"{text}.")
