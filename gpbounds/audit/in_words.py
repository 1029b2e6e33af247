"""The comparison with the exact GP in words: a verdict to act on, and a table for 80 columns."""

from __future__ import annotations

import math
from decimal import Decimal

from gpbounds.audit.compared import KINDS, Compared, PredictionScores
from gpbounds.bound import outward
from gpbounds.texts import table, wrapped


def in_nats_a_row(value: float, half: float) -> str:
    """A difference with its half width, to two digits of this, which is rounded up.

    >>> in_nats_a_row(0.00312, 0.00101), in_nats_a_row(0.21, 0.031), in_nats_a_row(1e-7, 1e-6)
    ('0.0031 ± 0.0011', '0.210 ± 0.031', '0.0000 ± 0.0001')
    """
    if not (math.isfinite(half) and math.isfinite(value)):
        return f"{value:.3g} ± ∞"
    places = 4 if half < 1e-4 else min(max(1 - math.floor(math.log10(half)), 0), 4)
    unit = 10.0**-places
    shown = f"{value:.{places}f}"
    shown = shown.removeprefix("-") if float(shown) == 0.0 else shown
    return f"{shown} ± {math.ceil(half / unit - 1e-9) * unit:.{places}f}"


def at_most(value: float) -> str:
    """A number rounded up to two digits, and not below 0.0001: enclosures and limits in sentences.

    >>> at_most(0.00352), at_most(1e-9), at_most(0.213)
    ('0.0036', '0.0001', '0.22')
    """
    if not math.isfinite(value):
        return "∞"
    if value <= 1e-4:
        return "0.0001"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:.2g}"


def sentence_of(compared: Compared) -> str:
    """The verdict in one sentence that a practitioner can act on."""
    own = compared.model
    gain, half = own.gain
    where = f"{compared.n} held-out rows"
    if compared.n < compared.held:
        where = f"{compared.n} of {compared.held} held-out rows, drawn at random"
    sure = f"certified to {at_most(float(own.log_loss.enclosure.width))}"
    if not compared.certified:
        sure = f"{sure}, with measured errors of the kernel's entries"
    if own.M is None:
        return _of_exact(compared, where, sure)
    words, name = in_nats_a_row(abs(gain), half), f"M = {own.M}"
    way = "better" if gain >= 0.0 else "worse"
    apart = f"{words} nats a row {way}" if abs(gain) + half > SAME else f"alike, within {at_most(SAME)} nats a row,"
    would = f"With these hyperparameters the exact GP would predict {apart} on {where} ({sure})"
    if compared.verdict == "enough":
        rest = f"gains at most {at_most(gain + half)}" if gain + half > 0.0 else "gains nothing"
        return f"{would}: {name} is enough for predictions; the exact GP {rest}."
    if compared.verdict == "not enough":
        return (
            f"{name} loses {words} nats a row against the exact GP with these hyperparameters on {where} ({sure}): "
            f"{_left(compared)}."
        )
    if float(own.log_loss.enclosure.width) > compared.loss:
        return f"{would}: whether {name} is enough for predictions cannot be told, as the solver's error is too large."
    return (
        f"{would}: whether {name} is enough for predictions (to {compared.loss:g}) cannot be told from these rows; "
        f"{compared.again if compared.n < compared.held else 'hold out more rows'}."
    )


def _of_exact(compared: Compared, where: str, sure: str) -> str:
    """The sentence about a model without inducing points, which predicts as the exact GP."""
    gain, half = compared.model.gain
    same = f"The model predicts as the exact GP: {in_nats_a_row(abs(gain), half)} nats a row apart on {where} ({sure})"
    fewer = [each for each in compared.levels if each.kind == "chosen"]
    for each in fewer:
        if compared.verdict_of(each) == "enough":
            return f"{same}; {each.M} chosen rows as inducing points would lose {in_nats_a_row(*each.gain)}."
    if fewer:
        return f"{same}; {fewer[-1].M} chosen rows as inducing points would lose {in_nats_a_row(*fewer[-1].gain)}."
    return f"{same}."


def _left(compared: Compared) -> str:
    """What more points would leave of the loss."""
    own = compared.model
    best = next((each for each in compared.levels if each.kind == "best"), None)
    if best is not None and best.gain[0] <= max(compared.loss, 0.5 * own.gain[0]):
        return f"the best posterior with the same points (method vfe) would leave {at_most(max(best.gain[0], 0.0))}"
    more = [each for each in compared.levels if each.kind == "added"]
    if not more:
        return "more inducing points would gain up to as much"
    for each in more:
        if each.gain[0] <= compared.loss:
            return f"with {_multiple(each.M, own.M)} points {at_most(max(each.gain[0], 0.0))} would be left"
    return f"with {_multiple(more[-1].M, own.M)} points {at_most(more[-1].gain[0])} would still be left"


def _multiple(count: int | None, M: int | None) -> str:
    assert count is not None
    assert M is not None
    return f"{count // M}M = {count}" if count % M == 0 else str(count)


def retrained_sentence(compared: Compared) -> str:
    """What a model that was trained again predicts, said to be an estimate; empty without one."""
    if compared.retrained is None:
        return ""
    low, high = compared.by_training.interval
    middle, half = -0.5 * (low + high), 0.5 * (high - low)
    way = "better" if middle >= 0.0 else "worse"
    return (
        f"An estimate from one training: a model that was trained again with {compared.retrained.M} points, from this "
        f"one's hyperparameters, predicts {in_nats_a_row(abs(middle), half)} nats a row {way} than yours on these rows."
    )


SAME = 1e-4
"""Differences of log loss up to this are called the same, in nats a row."""
SMALLEST = 1e-6
"""Divergences below this are shown as 0 from below, and as this from above: the printed number is still a bound."""


def divergence(bracket: tuple[float, float], digits: int) -> tuple[str, str]:
    """A bracket of a divergence, rounded outwards, without numbers such as 1e-22.

    >>> divergence((1e-22, 3e-9), 3), divergence((0.12345, 0.12345), 3)
    (('0', '0.000001'), ('0.123', '0.124'))
    """
    low, high = bracket
    least = outward(low, "lower", digits) if low >= SMALLEST else "0"
    most = outward(max(high, SMALLEST), "upper", digits)
    return (_plain(least), _plain(most))


def _plain(number: str) -> str:
    """The number without an exponent below 0.

    >>> _plain("2e-06"), _plain("1e+07")
    ('0.000002', '1e+07')
    """
    return f"{Decimal(number):f}" if "e-" in number else number


def per_row(kl: tuple[float, float] | None) -> str:
    """The bracket of a divergence per row, "no useful guarantee" where it says nothing."""
    if kl is None or not math.isfinite(kl[1]):
        return "no bound"
    if kl[1] <= SMALLEST:
        return f"below {SMALLEST:f}"
    least, most = divergence(kl, 2)
    return f"at most {most}" if least == "0" else f"{least} to {most}"


def row_of(each: PredictionScores) -> tuple[str, str, str, str, str, str]:
    """M, what it is, log loss, exact less this with its interval, RMSE, and KL per row."""
    gain, half = each.gain
    return (
        "" if each.M is None else str(each.M),
        KINDS[each.kind],
        f"{each.mean_log_loss:.4f}",
        in_nats_a_row(-gain, half),
        f"{float(each.rmse.middle):#.4g}",
        per_row(each.kl),
    )


def enclosed(ends: tuple[float, float], places: int) -> str:
    """Two ends, rounded outwards to so many decimal places.

    >>> enclosed((-0.000912, 0.00123), 4)
    '-0.0010 to 0.0013'
    """
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{low:g} to {high:g}"
    unit = 10.0**places
    return f"{math.floor(low * unit) / unit:.{places}f} to {math.ceil(high * unit) / unit:.{places}f}"


HEADER = ("M", "inducing points", "log loss", "exact - this", "RMSE", "KL a row")


def levels_in_text(compared: Compared) -> str:
    """The table of all numbers of inducing points, and what of it is proved, measured and estimated."""
    rows = [row_of(each) for each in (*compared.levels, *filter(None, [compared.retrained]))]
    low, high = compared.log_loss
    exact = ("", "the exact GP", f"{0.5 * (low + high):.4f}", "", f"{float(compared.rmse.middle):#.4g}", "0")
    return f"{table(HEADER, [*rows, exact])}\n{wrapped(legend(compared))}"


def legend(compared: Compared) -> str:
    """What of the comparison is proved, measured and estimated."""
    proved = f"the exact GP's log loss is certified to {at_most(float(compared.log_loss.width))} nats a row"
    share = compared.model.log_loss.share
    text = (
        f"Proved: {proved}, and for rows drawn independently the exact GP predicts better at a share between "
        f"{100 * share.low:.0f} and {100 * share.high:.0f} % of all such rows (95 %, binomial). Measured: ± is a 95 % "
        f"interval over {compared.n} rows (Student's, approximate). Log loss is in nats a row, RMSE in the units of "
        "the target, KL a row the divergence from the exact posterior over the number of training rows."
    )
    if compared.retrained is not None:
        text += " Estimated: the model that was trained again is one training among many."
    return text
