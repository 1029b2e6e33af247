"""The output of ``gpbounds certify train``: the terms of a certificate as text, as JSON and as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitting.study.terms import DECLARED, figure, scalings, terms, tolerance
from fitting.study.words import describe_kernel
from gpbounds.cli.table import Table
from gpbounds.cli.training import Trained
from gpbounds.pacbayes import Certificate
from gpbounds.rigor import decimal
from gpbounds.texts import short, wrapped
from gpbounds.texts import table as aligned


def report(table: Table, trained: Trained) -> str:
    """The statement as text, and its terms as a table."""
    certificate = trained.certificate
    lines = [
        wrapped(f"Data: {table.name}, N = {table.N}, D = {table.D}. {' '.join(table.notes)}".rstrip()),
        wrapped(f"Prior: {describe_kernel(certificate.kernel)}, on the grid. Q: {certificate.posterior.describe()}."),
        wrapped(trained.how),
        "",
        wrapped(certificate.statement),
        "",
        aligned(("term", "value", "from"), terms(certificate)),
        *(["", by_accuracy(trained)] if trained.others else []),
        "",
        wrapped(DECLARED),
        *(wrapped(f"{name} were {text}.") for name, text in scalings(certificate)),
        *([] if certificate.mean is None else [wrapped(certificate.mean.describe())]),
        *(wrapped(f"Note: {note}") for note in trained.notes),
    ]
    if certificate.bound > VACUOUS_FROM:
        lines.append(wrapped(advice(table, certificate)))
    return "\n".join(lines)


VACUOUS_FROM = 0.9
VACUOUS = (
    "Note: The bound is almost vacuous. These changes lower it: more rows, a larger --epsilon, --kernel-lengthscale "
    "shared, a --grid with fewer steps or other edges, units closer to 1 (--scaling split)."
)
SMALL = 0.2
"""An ε below so many standard deviations of the target is called small."""
SMALL_EPSILON = (
    " Here E is {share:.2g} standard deviations of the target, and few predictions are so accurate. --scaling split "
    "counts E in standard deviations; without --epsilon it certifies several values, fixed in advance, and prints a "
    "table of bound against E. You have now seen one certificate of these rows: this one and the next hold together "
    "with probability {both:g} %."
)


def advice(table: Table, certificate: Certificate) -> str:
    """What lowers a vacuous bound, and whether ε is small."""
    width, _ = tolerance(certificate, table.shown[1])
    spread = float(np.std(table.shown[1]))
    if np.ndim(width) or spread == 0.0 or not float(width) < SMALL * spread:
        return VACUOUS
    both = 100.0 * max(0.0, 1.0 - 2.0 * certificate.delta)
    return VACUOUS + SMALL_EPSILON.format(share=float(width) / spread, both=both)


def by_accuracy(trained: Trained) -> str:
    """The table of bound against ε, for all certificates of one training."""
    certificates = (trained.certificate, *trained.others)
    unit = float(trained.certificate.outputs.scale)
    rows = []
    for each in certificates:
        loss: Any = each.loss
        epsilon = float(loss.high if loss.name == "interval" else loss.epsilon)
        raw = "-" if loss.name in ("relative", "interval") else short(epsilon * unit)
        bound = decimal(each.bound, True, 4)
        rows.append((f"{epsilon:g}", raw, f"{each.kl:.4g}", f"{each.risk:.4f}", bound))
    head = (
        f"All {len(rows)} bounds hold together with probability {100 * (1 - trained.certificate.delta):g} %; each pays "
        f"ln({len(rows)}) for the choice (P-47), so you may choose one of them now:"
    )
    return f"{wrapped(head)}\n{aligned(('E', 'in raw units', 'KL', 'R_S', 'bound'), rows)}"


def record(table: Table, trained: Trained) -> dict[str, Any]:
    """The content of `report`, ready for JSON."""
    certificate = trained.certificate
    return {
        "data": {"name": table.name, "N": table.N, "D": table.D, "notes": table.notes},
        "statement": certificate.statement,
        "bound": certificate.bound,
        "risk": certificate.risk,
        "nats": {"KL": certificate.kl, "ln|Θ|": certificate.log_count, "ln(ξ/δ)": certificate.log_xi},
        "confidence": 1.0 - certificate.delta,
        "loss": certificate.loss.to_dict(),
        "kernel": describe_kernel(certificate.kernel),
        "posterior": certificate.posterior.describe(),
        "scaling": dict(scalings(certificate)),
        "mean": "zero" if certificate.mean is None else certificate.mean.describe(),
        "training": trained.how,
        "notes": trained.notes,
        "others": [{"loss": each.loss.to_dict(), "risk": each.risk, "bound": each.bound} for each in trained.others],
        "claims": ["P-14", "P-10", "P-44", "P-45", "P-47", "P-49"],
    }


def picture(table: Table, trained: Trained) -> Any:
    """The figure: predictions against truth with the band that the loss tolerates, and the terms of the bound."""
    y = table.shown[1]
    return figure(trained.certificate, y, trained.mean, trained.std, table.name, table.target)
