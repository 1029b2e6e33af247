"""The check of a certificate against data: each line recomputed, compared and reported."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpbounds.pacbayes.certificate import formula, priors, proved, settled
from gpbounds.pacbayes.certificate.evaluation import Enclosed
from gpbounds.pacbayes.certificate.mean import for_loss
from gpbounds.pacbayes.certificate.raw import Raw
from gpbounds.pacbayes.certificate.report import Line, Report, conclude
from gpbounds.pacbayes.certificate.statement import Statement

LOOSE = 100.0
"""Largest excess of a stated R_S or KL over the recomputed one, in errors; a relative 1e-6 is added."""


def check(certificate: Statement, rows: Raw, *, rigorous: bool = False) -> Report:
    """The report of `Certificate.check`; see there."""
    lines = [*_declared(certificate, rows), _seal(certificate), _grid(certificate)]
    data = _data(certificate, rows)
    lines.append(data)
    computed: Enclosed | None = None
    allowed = 0.0, 0.0
    if data.state == "confirmed":
        try:
            for_loss(certificate.mean, certificate.loss)
            computed, in_doubles = settled.to_check(certificate, rows)
            allowed = settled.tolerated(computed, in_doubles)
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
        *_penalties(certificate),
        _bound(certificate, computed),
    ]
    if not rigorous:
        return conclude(certificate.rigorous, certificate.statement, lines)
    if data.state != "confirmed":
        lines.append(Line("proof", "skipped", "not proved: the data differ"))
        return conclude(certificate.rigorous, certificate.statement, lines)
    findings, numbers = proved.lines(certificate, rows)
    return conclude(certificate.rigorous, certificate.statement, [*lines, *findings], numbers)


def _knowledge(computed: Enclosed) -> str:
    """What the errors of R_S and KL suppose."""
    if computed.digits == 30:
        return "Its R_S and KL are enclosed in 30 digits."
    return (
        "Its R_S and KL are known in double precision to within errors that are proved if exponentials and normal "
        "distribution functions are accurate to a few units in the last place; a rigorous check supposes nothing of "
        "these."
    )


def _declared(certificate: Statement, rows: Raw) -> Iterator[Line]:
    inputs, outputs = certificate.inputs.describe(), certificate.outputs.describe()
    both = (
        f"Inputs and outputs were {inputs}." if inputs == outputs else f"Inputs were {inputs}. Outputs were {outputs}."
    )
    yield Line("scaling", "declared", both)
    for (name, _), doubt in zip(
        certificate.scalings, rows.doubts(certificate.inputs, certificate.outputs), strict=True
    ):
        if doubt:
            yield Line("doubt", "declared", f"The {name}: {doubt} Ask the signer.")
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
    yield Line("draws", "declared", "The rows are independent draws from one law, and new rows follow the same law.")


def _single(certificate: Statement) -> str:
    """What the grid says of hyperparameters with one value, which nothing charges."""
    grid = certificate.grid
    names = [name for name, steps in zip(grid.names, grid.steps, strict=True) if steps == 0]
    if not names:
        return ""
    return f", with one value of {' and '.join(names)}, which no fit to these rows may have chosen"


def _seal(certificate: Statement) -> Line:
    if certificate.seal == certificate.fresh_seal():
        return Line("seal", "confirmed", "The record has not changed since it was sealed.")
    return Line("seal", "failed", "The record was changed after it was sealed.")


def _grid(certificate: Statement) -> Line:
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


def _data(certificate: Statement, rows: Raw) -> Line:
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
    value, error = (computed.kl, computed.kl_error) if name == "kl" else (computed.risk, computed.risk_error)
    how = "recomputed" if computed.digits == 16 else "proved in 30 digits to be at most"
    text = f"{title}: stated {stated:.9g}, {how} {value:.9g} within {error:.2g}"
    top = min(value + error, 1.0) if name == "risk" else value + error
    if not np.isfinite(top):
        return Line(name, "failed", f"{text}: no bound on its rounding is proved.")
    if stated < top:
        return Line(name, "failed", f"{text}: the stated number is too small.")
    if stated > value * (1.0 + 1e-6) + LOOSE * allowed:
        return Line(name, "failed", f"{text}: the stated number is a different one.")
    return Line(name, "confirmed", text + ".")


def _penalties(certificate: Statement) -> Iterator[Line]:
    count, N = certificate.count, certificate.data.rows
    paid = [f"|Θ| = {certificate.grid.size}", *(f"{c.count} {c.choice}" for c in certificate.charges)]
    if certificate.mean is not None and certificate.mean.count > 1:
        paid.append(f"{certificate.mean.count} means of the prior")
    paid += [f"{s.count} scalings of the {n}" for n, s in certificate.scalings if s.count > 1]
    for name, title, stated, computed in (
        (
            "choices",
            f"ln of the number of choices ({', '.join(paid)})",
            certificate.log_count,
            formula.log_count(count),
        ),
        (
            "xi",
            f"ln(ξ(N)/δ) at N = {N}, δ = {certificate.delta:g}",
            certificate.log_xi,
            formula.log_xi(N, certificate.delta),
        ),
    ):
        if stated == computed:
            yield Line(name, "confirmed", f"{title}: {stated:.9g}, rounded up.")
        else:
            yield Line(name, "failed", f"{title}: stated {stated!r}, computed {computed!r}.")


def _bound(certificate: Statement, computed: Enclosed | None) -> Line:
    count, N, delta = certificate.count, certificate.data.rows, certificate.delta
    least = formula.risk_bound(certificate.risk, certificate.kl, count, N, delta)
    if (
        computed is not None
        and np.isfinite(computed.kl + computed.kl_error)
        and not np.isnan(computed.risk + computed.risk_error)
    ):
        risk, kl = min(computed.risk + computed.risk_error, 1.0), computed.kl + computed.kl_error
        least = max(least, formula.risk_bound(risk, kl, count, N, delta))
    text = f"kl⁻¹(R_S, (KL + ln choices + ln(ξ(N)/δ))/N) by Arb is at most {least!r}; stated {certificate.bound!r}"
    if least <= certificate.bound:
        return Line("bound", "confirmed", text + ".")
    return Line("bound", "failed", f"{text}: the stated bound is too small.")
