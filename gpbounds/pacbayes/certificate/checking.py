"""The check of a certificate against data: each line recomputed, compared and reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpbounds.arrays import EPS
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import AUTO_LADDER
from gpbounds.losses import Sign
from gpbounds.pacbayes.certificate import priors, proof, statement
from gpbounds.pacbayes.certificate.declarations import for_loss
from gpbounds.pacbayes.certificate.posteriors import Exact, Inducing, Updated
from gpbounds.pacbayes.certificate.rows import Enclosed, Raw
from gpbounds.pacbayes.certificate.sealed import SealedRecord
from gpbounds.pacbayes.certificate.statement import Line, Report, RiskStatement, conclude

# R_S and KL of a certificate's Q: in doubles where their proved errors are small, else in 30 digits.

COARSE_KL, COARSE_RISK = 1e-4, 1e-5
"""Errors of doubles up to COARSE_KL·(KL + 10) nats and COARSE_RISK move a bound by less than a printed digit."""
_REPEATED = 0.05
"""Share of the width of a proof by which its ends may differ on another machine."""
MOST_INDUCING, MOST_ROWS, MOST_WORK = 1500, 2000, 2e9
"""Inducing inputs M, rows of an exact posterior, and NM², up to which 30 digits are tried: about two minutes."""


def in_doubles(certificate: RiskStatement, rows: Raw) -> Enclosed:
    """R_S and KL in doubles, each within a proved error, which may be infinite (N-rounded-kl, N-rounded-exact).

    Raises
    ------
    ValueError, NotPositiveDefinite
        where Q, the loss or the scaling does not fit the rows, or Q cannot be built in double precision.
    """
    units = certificate.inputs, certificate.outputs
    return rows.enclose(certificate.posterior, certificate.kernel, *units, certificate.loss, certificate.mean)


def _in_thirty_digits(certificate: RiskStatement, rows: Raw) -> Enclosed:
    """R_S and KL by the upper ends of `proof.ends`, with allowances for other machines.

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
    ends = proof.ends(certificate, rows)
    kl_error = _REPEATED * (ends.kl - ends.kl_below) + 4.0 * EPS * ends.kl
    risk_error = _REPEATED * (ends.risk - ends.risk_below) + 4.0 * EPS
    return Enclosed(
        ends.risk,
        risk_error,
        ends.kl,
        kl_error,
        float(getattr(posterior, "jitter", 0.0)),
        digits=30,
        tandem=ends.tandem,
        tandem_error=_REPEATED * (ends.tandem - ends.tandem_below) + 4.0 * EPS,
    )


def coarse(computed: Enclosed) -> bool:
    """Whether errors are so large that 30 digits are worth their time; True for NaN."""
    return not (computed.kl_error <= COARSE_KL * (computed.kl + 10.0) and computed.risk_error <= COARSE_RISK)


def to_issue(certificate: RiskStatement, rows: Raw) -> Enclosed:
    """R_S and KL of a Q whose jitter may be "auto", with the jitter that is used.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `in_doubles`.
    """
    coarse_ones: list[Enclosed] = []
    refused: NotPositiveDefinite | None = None
    jitters = [certificate.posterior.with_jitter(jitter) for jitter in _jitters(certificate)]
    for compute in (in_doubles, _in_thirty_digits):
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


def _jitters(certificate: RiskStatement) -> list[float]:
    """The jitters to try: that of the record, or for "auto" the steps of the ladder, times the variance at Z."""
    posterior = certificate.posterior
    if not (isinstance(posterior, Inducing) and posterior.jitter == "auto"):
        return [float(getattr(posterior, "jitter", 0.0))]
    largest = certificate.kernel.largest_variance(posterior.Z)  # type: ignore[attr-defined]
    return [step * largest for step in AUTO_LADDER]


def _to_check(certificate: RiskStatement, rows: Raw) -> tuple[Enclosed, Enclosed]:
    """The R_S and KL with which the stated ones are compared, and those in doubles.

    The first are computed in 30 digits if doubles neither confirm nor refute the stated numbers.

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
    stated = [(certificate.kl, first.kl, first.kl_error), (certificate.risk, first.risk, first.risk_error)]
    tops = [first.kl + first.kl_error, min(first.risk + first.risk_error, 1.0)]
    if certificate.tandem is not None:
        stated.append((certificate.tandem, first.tandem, first.tandem_error))
        tops.append(min(first.tandem + first.tandem_error, 1.0))
    above = all(number >= top for (number, _, _), top in zip(stated, tops, strict=True))
    below = any(np.isfinite(value) and number < value - error for number, value, error in stated)
    second = None if above or below else _finer(certificate, rows)
    return (first, first) if second is None else (second, first)


def _finer(certificate: RiskStatement, rows: Raw) -> Enclosed | None:
    try:
        return _in_thirty_digits(certificate, rows)
    except ValueError:
        return None


def tolerated(computed: Enclosed, in_doubles: Enclosed) -> tuple[float, float]:
    """The largest allowances that an issuer on another machine may have added to KL and R_S, also in doubles."""
    kl = min(in_doubles.kl_error, COARSE_KL * (computed.kl + 10.0))
    risk = min(in_doubles.risk_error, COARSE_RISK)
    return max(computed.kl_error, kl), max(computed.risk_error, risk)


# The check of a certificate against data: each line recomputed, compared and reported.

DRAWS = Line("draws", "declared", "The rows are independent draws from one law, and new rows follow the same law.")

LOOSE = 100.0
"""Largest excess of a stated R_S or KL over the recomputed one, in errors; a relative 1e-6 is added."""


def check(certificate: RiskStatement, rows: Raw, *, rigorous: bool = False) -> Report:
    """The report of `Certificate.check`; see there."""
    lines = [seal_line(certificate), _grid(certificate)]
    data = data_line(certificate, rows)
    lines.append(data)
    rows = rows.certified(certificate.split) if data.state == "confirmed" else rows
    lines = [*_declared(certificate, rows), *lines]
    computed: Enclosed | None = None
    allowed = 0.0, 0.0
    if data.state == "confirmed":
        try:
            for_loss(certificate.mean, certificate.loss)
            computed, in_doubles = _to_check(certificate, rows)
            allowed = tolerated(computed, in_doubles)
        except ValueError as error:  # Q, the loss or the scaling does not fit these data
            lines.append(Line("posterior", "failed", f"Q and its risk cannot be evaluated: {error}"))
        else:
            lines.append(
                Line(
                    "posterior",
                    "confirmed",
                    f"Q is rebuilt from the data: {certificate.posterior.describe()}. {_knowledge(computed)}",
                )
            )
    else:
        lines.append(Line("posterior", "skipped", "not rebuilt: the data differ"))
    lines += [
        _number("kl", "KL(Q‖P)", certificate.kl, computed, allowed[0]),
        _number("risk", f"R_S under {certificate.loss!r}", certificate.risk, computed, allowed[1]),
        *(
            ()
            if certificate.tandem is None
            else [_number("tandem", "T_S, the mean of (E ℓ)²", certificate.tandem, computed, 2.0 * allowed[1])]
        ),
        *_penalties(certificate),
        _bound(certificate, computed),
    ]
    if not rigorous:
        return conclude(certificate.rigorous, certificate.statement, lines)
    if data.state != "confirmed":
        lines.append(Line("proof", "skipped", "not proved: the data differ"))
        return conclude(certificate.rigorous, certificate.statement, lines)
    findings, numbers = proof.lines(certificate, rows)
    return conclude(certificate.rigorous, certificate.statement, [*lines, *findings], numbers)


def _knowledge(computed: Enclosed) -> str:
    """The assumption under which the errors of R_S and KL are proved."""
    if computed.digits == 30:
        return "Its R_S and KL are enclosed in 30 digits."
    return (
        "Its R_S and KL are known in double precision to within errors that are proved if exponentials and normal "
        "distribution functions are accurate to a few units in the last place; a rigorous check supposes nothing of "
        "these."
    )


def _declared(certificate: RiskStatement, rows: Raw) -> Iterator[Line]:
    inputs, outputs = certificate.inputs.describe(), certificate.outputs.describe()
    both = (
        f"Inputs and outputs were {inputs}." if inputs == outputs else f"Inputs were {inputs}. Outputs were {outputs}."
    )
    yield Line("scaling", "declared", both)
    for (name, _), doubt in zip(
        certificate.scalings, rows.doubts(certificate.inputs, certificate.outputs), strict=True
    ):
        if doubt and not (
            name == "outputs" and isinstance(certificate.loss, Sign)
        ):  # labels −1 and 1, in equal numbers
            yield Line("doubt", "declared", f"The {name}: {doubt} Ask the signer.")
    yield from _prior(certificate)
    mean = certificate.mean
    if mean is not None:
        yield Line("mean", "declared", mean.describe())
        if doubt := rows.doubt_of_mean(certificate.inputs, certificate.outputs, mean):
            yield Line("doubt", "declared", f"The mean of the prior: {doubt} Ask the signer.")
    lists = "".join(f"; one of {c.count} {c.choice}, all listed in advance" for c in certificate.charges)
    yield Line(
        "in advance",
        "declared",
        "Fixed before the data were seen: the loss and its ε (in the units of the scaled outputs), δ, the kernel "
        f"family, {'the mean 0 of the prior, ' if mean is None else ''}the grid{_single(certificate)}{lists}.",
    )
    yield DRAWS


def _prior(certificate: RiskStatement) -> Iterator[Line]:
    """What a prior from other rows rests on."""
    if isinstance(certificate.posterior, Updated):
        other = "the prior's rows" if certificate.split is not None else "rows that are not these, or before them"
        yield Line(
            "prior",
            "declared",
            f"The law P of the inducing variables, their inputs, the jitter and the hyperparameters came from {other}.",
        )
    yield from split_line(certificate)


def split_line(certificate: SealedRecord) -> Iterator[Line]:
    """The declaration of the split."""
    if certificate.split is not None:
        yield Line(
            "split",
            "declared",
            "The order of the rows and the split were fixed before the data were seen, and no other split was tried. "
            f"The split was {certificate.split.describe()}.",
        )


def _single(certificate: RiskStatement) -> str:
    """A clause about hyperparameters with one grid value, which cost no penalty; empty if there are none."""
    grid = certificate.grid
    names = [name for name, steps in zip(grid.names, grid.steps, strict=True) if steps == 0]
    if not names:
        return ""
    return f", with one value of {' and '.join(names)}, which no fit to the certified rows may have chosen"


def seal_line(certificate: SealedRecord) -> Line:
    """Whether the record has the seal that it states."""
    if certificate.seal == certificate.fresh_seal():
        return Line("seal", "confirmed", "The record has not changed since it was sealed.")
    return Line("seal", "failed", "The record was changed after it was sealed.")


def _grid(certificate: RiskStatement) -> Line:
    try:
        point = certificate.grid.at(certificate.indices)
        located = priors.locate(certificate.kernel, certificate.grid)
    except ValueError as error:
        return Line("grid", "failed", str(error))
    if located.theta != point.theta:
        return Line("grid", "failed", f"The kernel is at indices {located.indices}, not at {certificate.indices}.")
    kernel = " ".join(repr(certificate.kernel).split())  # repr of a long array has several lines
    return Line(
        "grid", "confirmed", f"θ is the member {point.indices} of a grid of {certificate.grid.size} points: {kernel}."
    )


def data_line(certificate: SealedRecord, rows: Raw) -> Line:
    """Whether these are the raw rows that the certificate is about."""
    stated, (N, D) = certificate.data, rows.shape
    shapes = f"N = {stated.rows}, D = {stated.columns}"
    if (N, D) != (stated.rows, stated.columns):
        text = f"The certificate is about {shapes}; these data have N = {N}, D = {D}."
        return Line("data", "failed", text)
    if rows.fingerprint.sha256 != stated.sha256:
        return Line("data", "failed", "SHA-256 differs: the values or their order differ.")
    return Line("data", "confirmed", f"SHA-256 {stated.sha256[:16]}… agrees; {shapes}.")


def _number(name: str, title: str, stated: float, computed: Enclosed | None, allowed: float) -> Line:
    """Check that a stated number is at least the recomputed one plus its error, and does not exceed it by much."""
    if computed is None:
        return Line(name, "skipped", f"{title}: stated {stated:.9g}, not recomputed")
    value, error = getattr(computed, name), getattr(computed, f"{name}_error")
    how = "recomputed" if computed.digits == 16 else "proved in 30 digits to be at most"
    text = f"{title}: stated {stated:.9g}, {how} {value:.9g} within {error:.2g}"
    top = value + error if name == "kl" else min(value + error, 1.0)
    if not np.isfinite(top):
        return Line(name, "failed", f"{text}: no bound on its rounding is proved.")
    if stated < top:
        return Line(name, "failed", f"{text}: the stated number is too small.")
    if stated > value * (1.0 + 1e-6) + LOOSE * allowed:
        return Line(name, "failed", f"{text}: the stated number is a different one.")
    return Line(name, "confirmed", text + ".")


def _penalties(certificate: RiskStatement) -> Iterator[Line]:
    count, N = certificate.count, certificate.rows
    paid = [f"|Θ| = {certificate.grid.size}", *(f"{c.count} {c.choice}" for c in certificate.charges)]
    if certificate.mean is not None and certificate.mean.count > 1:
        paid.append(f"{certificate.mean.count} means of the prior")
    paid += [f"{s.count} scalings of the {n}" for n, s in certificate.scalings if s.count > 1]
    paid += [] if certificate.tandem is None else ["2 bounds on the mean prediction"]
    for name, title, stated, computed in (
        (
            "choices",
            f"ln of the number of choices ({', '.join(paid)})",
            certificate.log_count,
            statement.log_count(count),
        ),
        (
            "xi",
            f"ln(ξ(N)/δ) at N = {N}, δ = {certificate.delta:g}",
            certificate.log_xi,
            statement.log_xi(N, certificate.delta),
        ),
    ):
        if stated == computed:
            yield Line(name, "confirmed", f"{title}: {stated:.9g}, rounded up.")
        else:
            yield Line(name, "failed", f"{title}: stated {stated!r}, computed {computed!r}.")


def _bound(certificate: RiskStatement, computed: Enclosed | None) -> Line:
    about_mean = certificate.tandem is not None
    least = certificate.least_bound(certificate.risk, certificate.kl, certificate.tandem)
    if computed is not None:
        kl, risk, tandem = (
            computed.kl + computed.kl_error,
            min(computed.risk + computed.risk_error, 1.0),
            min(computed.tandem + computed.tandem_error, 1.0) if about_mean else None,
        )
        if np.isfinite(kl) and not np.isnan(risk) and not (tandem is not None and np.isnan(tandem)):
            least = max(least, certificate.least_bound(risk, kl, tandem))
    formula = "kl⁻¹(R_S, (KL + ln choices + ln(ξ(N)/δ))/N)"
    if about_mean:
        formula = f"The least of 2 {formula} and 4 kl⁻¹(T_S, (2 KL + ln choices + ln(ξ(N)/δ))/N)"
    text = f"{formula} by Arb is at most {least!r}; stated {certificate.bound!r}"
    if least <= certificate.bound:
        return Line("bound", "confirmed", text + ".")
    return Line("bound", "failed", f"{text}: the stated bound is too small.")
