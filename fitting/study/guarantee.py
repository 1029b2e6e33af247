"""What the receiver of a certificate may rely on, in one sentence, and when a held-out set says more."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from gpbounds.losses import Band, Interval, Loss, Relative, Squared
from gpbounds.pacbayes import Certificate, CoverageCertificate, HeldOutCertificate, holdout_bound
from gpbounds.rigor import decimal
from gpbounds.texts import short

AnyCertificate = Certificate | HeldOutCertificate | CoverageCertificate

FORMS = "forms of certificate"
"""The choice of a `gpbounds.pacbayes.Charge` for the best of several forms."""

NAMES = {"pac-bayes": "prior on a grid", "data-prior": "prior from other rows", "held-out": "held-out rows"}
NAMES["coverage"] = "held-out rows, intervals"
"""What the forms of certificate are called, by `Certificate.method`."""


def relied_on(certificate: AnyCertificate) -> str:
    """One sentence that the receiver of a certificate may rely on, given its declarations.

    Deviations are in the units of the raw targets; the share is rounded up.

    >>> from gpbounds.losses import Band
    >>> y = np.arange(200.0)
    >>> made = HeldOutCertificate.issue(y, y, y + 0.1, predictor="a rule", loss=Band(0.6), delta=0.01)
    >>> print(*relied_on(made).split(" (99 %), "), sep="\\n")
    At most 2.3 % of new targets are more than 0.6 off the model's prediction
    checked by 200 rows that the model had not seen.
    """
    rows = f"checked by {certificate.rows:,} rows{_seen(certificate)}."
    if not certificate.rigorous:
        return f"Nothing is guaranteed, as the scaling came from the same rows; {rows}"
    if certificate.bound >= 1.0:
        return f"Nothing can be relied on, as the bound is 1; {rows}"
    return f"{_claim(certificate)} ({confidence(certificate.delta)} %), {rows}"


def confidence(delta: float) -> str:
    """100(1 − δ) with up to five digits, rounded down; δ is taken as it is written.

    >>> confidence(0.01), confidence(0.003333333333333333)
    ('99', '99.666')
    """
    return _plain(Context(prec=5, rounding=ROUND_FLOOR).create_decimal(100 - 100 * Decimal(repr(delta))))


def percent(bound: float) -> str:
    """100 ``bound`` rounded up to two digits.

    >>> percent(0.02277), percent(0.5), percent(0.000123)
    ('2.3', '50', '0.013')
    """
    return _plain(100 * Decimal(decimal(bound, True, 2)))


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _seen(certificate: AnyCertificate) -> str:
    """What the rows are to the model: the end of a sentence."""
    whose = {"pac-bayes": ", which may have trained it", "data-prior": " that the prior had not seen"}
    return whose.get(certificate.method, " that the model had not seen")


def _claim(certificate: AnyCertificate) -> str:
    """The claim, without its probability."""
    if isinstance(certificate, CoverageCertificate):
        held = _plain(100 * Decimal(repr(certificate.level)))
        return (
            f"At least {held} % of new targets lie within {outwards(certificate.factor)} times the model's spread of "
            "its prediction"
        )
    share = percent(certificate.bound)
    if certificate.loss is None:
        return f"At most {share} % of new labels are not those that the model predicts"
    if certificate.loss.name == "sign":
        who = "a function drawn from the model" if _gibbs(certificate) else "the vote of the model"
        return f"At most {share} % of new labels are not those of {who}"
    prediction = "a prediction drawn from the model" if _gibbs(certificate) else "the model's prediction"
    beyond = _beyond(certificate.loss, _unit(certificate), prediction)
    if beyond:
        return f"At most {share} % of new targets {beyond}"
    value = decimal(certificate.bound, True, 2)
    return f"The mean of {certificate.loss!r}, a loss from 0 to 1, of {prediction} is at most {value} on new rows"


def outwards(value: float) -> str:
    """Three digits, rounded up."""
    return _plain(Decimal(decimal(value, True, 3)))


def _gibbs(certificate: Any) -> bool:
    """Whether the risk is that of predictions drawn from Q."""
    return isinstance(certificate, Certificate) and certificate.predictor == "gibbs"


def _unit(certificate: Any) -> float:
    return float(np.ravel(certificate.outputs.scale)[0])


def _beyond(loss: Loss, unit: float, prediction: str) -> str:
    """Where a loss is 1, as a clause about targets; empty where it is below 1 everywhere.

    By Markov's inequality the share of these targets is at most the mean loss.
    """
    if isinstance(loss, Band | Squared):
        return f"are more than {short(loss.epsilon * unit)} off {prediction}"
    if isinstance(loss, Relative):
        return f"are more than {100.0 * loss.epsilon:.3g} % of their size off {prediction}"
    if not isinstance(loss, Interval):
        return ""
    unit, of = (100.0, " % of their size") if loss.relative else (unit, "")
    ends = f"{short(unit * loss.low)} and {short(unit * loss.high)}{of}"
    return f"are such that {prediction} less the target is not between {ends}"


def when_held_out(certificate: AnyCertificate) -> str:
    """When a held-out set is the better choice, with what one would say here: two sentences.

    The numbers are an outlook and no guarantee: they suppose that the rows of a held-out set show the same mean loss.
    """
    if isinstance(certificate, CoverageCertificate):
        return (
            f"Intervals need rows that the model has not seen: with {certificate.rows:,} of them the factor is the "
            f"{certificate.rank:,}-th smallest deviation. More rows bring the share that they hold closer to the "
            "stated one."
        )
    if isinstance(certificate, HeldOutCertificate):
        added = _up(certificate.bound - certificate.risk)
        return (
            "A held-out set is the better choice with rows to spare, for any model and for hard labels: these "
            f"{certificate.rows:,} rows add {added} to their mean loss of {_up(certificate.risk)}. Where rows are "
            "scarce, a prior from other rows lets the posterior learn from all of them, and a prior on a grid sets "
            "none aside."
        )
    N, n = certificate.data.rows, certificate.rows
    loss = "the same mean loss"
    if certificate.method == "data-prior":
        return (
            f"A held-out set is the better choice if the model need not learn from these {n:,} rows: they would bound "
            f"{loss} of any fixed model by {_up(_held_out(certificate, n))}. The prior from other rows is for the "
            "posterior itself, which may learn from all rows, and for scarce rows."
        )
    return (
        f"A held-out set is the better choice with rows to spare, for any model and for hard labels: half of the rows, "
        f"{(N + 1) // 2:,}, would bound {loss} by {_up(_held_out(certificate, (N + 1) // 2))}. The prior on a grid is "
        "for rows of which none can be set aside."
    )


ALMOST = 1e-6
"""By so many mistakes a mean loss may exceed a whole number through the allowance for its rounding."""


def _held_out(certificate: Certificate, n: int) -> float:
    """The bound from n held-out rows with the mean loss R_S."""
    if certificate.loss.zero_one:
        return float(
            holdout_bound(min(math.ceil(max(certificate.risk * n - ALMOST, 0.0)), n), n, delta=certificate.delta)
        )
    return float(holdout_bound(certificate.risk * n, n, delta=certificate.delta, losses="bounded"))


def _up(value: float) -> str:
    return _plain(Decimal(decimal(max(value, 0.0), True, 2))) if value > 0.0 else "0"
