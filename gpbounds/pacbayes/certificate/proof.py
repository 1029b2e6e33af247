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
from gpbounds.pacbayes.certificate.declarations import for_loss
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Updated, Whitened
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
    enclosures = ends(certificate, rows)
    bound = certificate.least_bound(
        enclosures.risk, enclosures.kl, None if certificate.tandem is None else enclosures.tandem
    )
    return Proved(
        risk=enclosures.risk,
        kl=enclosures.kl,
        risk_below=enclosures.risk_below,
        kl_below=enclosures.kl_below,
        bound=bound,
        moved=bound - certificate.bound,
        tandem=enclosures.tandem,
        tandem_below=enclosures.tandem_below,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True)
class Ends:
    """R_S(Q) and KL(Q‖P), and T_S(Q) where the certificate states it, each between two proved numbers."""

    risk: float
    kl: float
    risk_below: float
    kl_below: float
    tandem: float = math.nan
    tandem_below: float = math.nan


def ends(certificate: RiskStatement, rows: Raw) -> Ends:
    """R_S and KL of the Q that the record defines, enclosed; errors as `prove`."""
    kernel = EnclosedKernel.of(certificate.kernel)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        kl, *sums = _enclosed(certificate, kernel, rows)
    with at_bits(BITS):
        kl_below, kl_above = below(kl), above(kl)
        risks = [(below(total / rows.shape[0]), above(total / rows.shape[0])) for total in sums]
    if not math.isfinite(kl_above) or any(math.isnan(high) for _, high in risks):
        raise ValueError("posterior: expected a KL(Q‖P) with a finite upper end, but the proof has none")
    (risk_below, risk_above), *others = [(max(low, 0.0), min(max(high, 0.0), 1.0)) for low, high in risks]
    tandem_below, tandem_above = others[0] if others else (math.nan, math.nan)
    return Ends(risk_above, max(kl_above, 0.0), risk_below, max(kl_below, 0.0), tandem_above, tandem_below)


def _enclosed(certificate: RiskStatement, kernel: EnclosedKernel, rows: Raw) -> list[Any]:
    """KL(Q‖P), the sum of the expected losses and, where it is stated, that of their squares, as balls."""
    for_loss(certificate.mean, certificate.loss)
    units, loss = (certificate.inputs, certificate.outputs, certificate.mean), certificate.loss
    powers = (False,) if certificate.tandem is None else (False, True)

    def parts() -> Iterator[tuple[Float, Float]]:
        return rows.parts(*units)

    def sums(y: Float, law: pairs.Latent) -> list[Any]:
        return [enclosed_sum(loss, y, *_numbers(law), squared=squared) for squared in powers]

    if isinstance(certificate.posterior, Exact):
        (X, y), *others = parts()
        if others:
            raise ValueError(
                "posterior: expected a sparse one for rows that are read by partitions, got the exact GP posterior, "
                "which needs all rows in memory"
            )
        kl, law = pairs.full_law(kernel, X, y, certificate.posterior.noise)
        return [kl, *sums(y, law)]
    q = _sparse(certificate.posterior, kernel, parts)
    totals: list[Any] = [0] * len(powers)
    for X, y in parts():
        enclosures = sums(y, q.latent(X))
        with at_bits(BITS):
            totals = [new + total for new, total in zip(enclosures, totals, strict=True)]
    return [q.kl, *totals]


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
    if isinstance(posterior, Updated):
        prior = posterior.prior_mean, posterior.prior_factor
        jitter = float(posterior.jitter)
        return pairs.updated_law(kernel, posterior.Z, prior, posterior.mean, posterior.factor, jitter)
    raise ValueError(f"posterior: expected Exact, Sparse, Free, Whitened or Updated, got {type(posterior).__name__}")


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
    if certificate.tandem is not None:
        findings.append(_number("tandem proof", "T_S", certificate.tandem, proved.tandem_below, proved.tandem))
    whose = "R(Q)" if certificate.tandem is None else "The risk of the mean prediction"
    text = (
        f"{whose} ≤ {proved.bound!r} is proved in {proved.seconds:.3g} s, given the declarations: the bound moves by "
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
