"""R_S and KL of a certificate's Q: in doubles where their proved errors are small, else in 30 digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpbounds.arrays import EPS
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import AUTO_LADDER
from gpbounds.pacbayes.certificate import proved
from gpbounds.pacbayes.certificate.evaluation import Enclosed
from gpbounds.pacbayes.certificate.posteriors import Exact, Inducing
from gpbounds.pacbayes.certificate.raw import Raw
from gpbounds.pacbayes.certificate.statement import Statement

COARSE_KL, COARSE_RISK = 1e-4, 1e-5
"""Errors of doubles up to COARSE_KL·(KL + 10) nats and COARSE_RISK move a bound by less than a printed digit."""
REPEATED = 0.05
"""Share of the width of a proof by which its ends may differ on another machine."""
MOST_INDUCING, MOST_ROWS, MOST_WORK = 1500, 2000, 2e9
"""Inducing inputs M, rows of an exact posterior, and NM², up to which 30 digits are tried: about two minutes."""


def in_doubles(certificate: Statement, rows: Raw) -> Enclosed:
    """R_S and KL in doubles, each within a proved error, which may be infinite (N-rounded-kl, N-rounded-exact).

    Raises
    ------
    ValueError, NotPositiveDefinite
        where Q, the loss or the scaling does not fit the rows, or Q cannot be built in double precision.
    """
    units = certificate.inputs, certificate.outputs
    return rows.enclose(certificate.posterior, certificate.kernel, *units, certificate.loss, certificate.mean)


def in_thirty_digits(certificate: Statement, rows: Raw) -> Enclosed:
    """R_S and KL within the ends that `proved.ends` gives.

    Raises
    ------
    ValueError, NotPositiveDefinite
        where something cannot be proved, or would take too long.
    """
    posterior = certificate.posterior
    N, M = rows.shape[0], len(getattr(posterior, "Z", ()))
    if M > MOST_INDUCING or float(N) * M * M > MOST_WORK or (isinstance(posterior, Exact) and N > MOST_ROWS):
        raise ValueError(
            f"posterior: expected at most {MOST_INDUCING} inducing inputs M and NM² up to {MOST_WORK:g}, or "
            f"{MOST_ROWS} rows of an exact posterior, for 30 digits, got N = {N}, M = {M}"
        )
    ends = proved.ends(certificate, rows)
    kl_error = REPEATED * (ends.kl - ends.kl_below) + 4.0 * EPS * ends.kl
    risk_error = REPEATED * (ends.risk - ends.risk_below) + 4.0 * EPS
    return Enclosed(ends.risk, risk_error, ends.kl, kl_error, float(getattr(posterior, "jitter", 0.0)), digits=30)


def coarse(computed: Enclosed) -> bool:
    """Whether errors are so large that 30 digits are worth their time; True for NaN."""
    return not (computed.kl_error <= COARSE_KL * (computed.kl + 10.0) and computed.risk_error <= COARSE_RISK)


def to_issue(certificate: Statement, rows: Raw) -> Enclosed:
    """R_S and KL of a Q whose jitter may be "auto", with the jitter that is used.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `in_doubles`.
    """
    coarse_ones: list[Enclosed] = []
    refused: NotPositiveDefinite | None = None
    jitters = [certificate.posterior.with_jitter(jitter) for jitter in _jitters(certificate)]
    for compute in (in_doubles, in_thirty_digits):
        for posterior in jitters:
            trial = replace(certificate, posterior=posterior)
            try:
                computed = compute(trial, rows)
            except NotPositiveDefinite as error:
                refused = refused or error
            except ValueError:
                if compute is in_doubles:
                    raise
            else:
                if not coarse(computed):
                    return computed
                coarse_ones.append(computed)
    if coarse_ones:
        return min(coarse_ones, key=lambda each: (each.kl + each.kl_error, each.risk + each.risk_error))
    assert refused is not None
    raise refused


def _jitters(certificate: Statement) -> list[float]:
    """The jitters to try: that of the record, or for "auto" the steps of the ladder, times the variance at Z."""
    posterior = certificate.posterior
    if not (isinstance(posterior, Inducing) and posterior.jitter == "auto"):
        return [float(getattr(posterior, "jitter", 0.0))]
    largest = certificate.kernel.largest_variance(posterior.Z)  # type: ignore[attr-defined]
    return [step * largest for step in AUTO_LADDER]


def to_check(certificate: Statement, rows: Raw) -> tuple[Enclosed, Enclosed]:
    """R_S and KL that decide whether the stated ones are large enough, and those in doubles.

    30 digits are computed where the stated numbers are neither above all that doubles allow nor below it.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `in_doubles`.
    """
    try:
        first = in_doubles(certificate, rows)
    except NotPositiveDefinite:
        second = _finer(certificate, rows)
        if second is None:
            raise
        return second, second
    stated = ((certificate.kl, first.kl, first.kl_error), (certificate.risk, first.risk, first.risk_error))
    tops = (first.kl + first.kl_error, min(first.risk + first.risk_error, 1.0))
    above = all(number >= top for (number, _, _), top in zip(stated, tops, strict=True))
    below = any(np.isfinite(value) and number < value - error for number, value, error in stated)
    second = None if above or below else _finer(certificate, rows)
    return (first, first) if second is None else (second, first)


def _finer(certificate: Statement, rows: Raw) -> Enclosed | None:
    try:
        return in_thirty_digits(certificate, rows)
    except ValueError:
        return None


def tolerated(computed: Enclosed, in_doubles: Enclosed) -> tuple[float, float]:
    """Errors of KL and R_S that another machine, which may have computed in doubles, may have allowed for."""
    kl = min(in_doubles.kl_error, COARSE_KL * (computed.kl + 10.0))
    risk = min(in_doubles.risk_error, COARSE_RISK)
    return max(computed.kl_error, kl), max(computed.risk_error, risk)
