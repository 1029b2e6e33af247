"""What ``gpbounds certify train`` says of a certificate: its terms laid out, as JSON, and on a page of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli import output
from gpbounds.cli.problem import describe_kernel, headline, short
from gpbounds.cli.rows import Rows
from gpbounds.cli.training import Trained
from gpbounds.pacbayes import Certificate
from gpbounds.rigor import decimal

DECLARED = (
    "Declared, and no file can prove it: loss, epsilon, delta, kernel, grid and scaling were fixed before the data "
    "were seen."
)


def report(table: Rows, found: Trained) -> str:
    """The statement and its terms, in words and one table."""
    made = found.certificate
    lines = [
        output.wrapped(f"Data: {table.name}, N = {table.N}, D = {table.D}. {' '.join(table.notes)}".rstrip()),
        output.wrapped(f"Prior: {describe_kernel(made.kernel)}, on the grid. Q: {made.posterior.describe()}."),
        output.wrapped(found.how),
        "",
        output.wrapped(made.statement),
        "",
        output.table(("term", "value", "from"), terms(made)),
        "",
        output.wrapped(DECLARED),
        *(output.wrapped(f"{name} were {text}.") for name, text in scalings(made)),
        *(output.wrapped(f"Note: {note}") for note in found.notes),
    ]
    if made.bound > 0.999:
        lines.append(output.wrapped(VACUOUS))
    return "\n".join(lines)


VACUOUS = (
    "Note: The bound says next to nothing. What lowers it: more rows, a larger --epsilon, --kernel-lengthscale shared, "
    "a --grid of fewer steps or of other edges, units nearer to 1 (--scaling split)."
)


def terms(made: Certificate) -> list[tuple[str, str, str]]:
    """Name, value and origin of what the bound is made of."""
    N, G = made.data.rows, made.grid
    if len(set(G.steps)) == 1:
        points = f"{G.T} ln({G.steps[0] + 1})"
    else:
        points = " + ".join(f"ln({g + 1})" for g in G.steps)
    rows = [
        ("KL/N", made.kl, f"{made.kl:.6g}/{N}"),
        ("ln|Θ|/N", made.log_count, f"{made.log_count:.6g}/{N}: {points}"),
        ("ln(ξ/δ)/N", made.log_xi, f"{made.log_xi:.6g}/{N}"),
    ]
    laid = [(name, f"{nats / N:.6f}", origin) for name, nats, origin in rows]
    total = made.kl + made.log_count + made.log_xi
    return [
        *laid,
        ("ε, their sum", f"{total / N:.6f}", ""),
        ("R_S", f"{made.risk:.6f}", f"{made.loss!r} on these {N} rows"),
        ("kl⁻¹(R_S, ε)", decimal(made.bound, True, 6), "the bound; 1 says nothing"),
    ]


def scalings(made: Certificate) -> list[tuple[str, str]]:
    """What the certificate declares of its scalings."""
    said = {name: scaling.describe() for name, scaling in made.scalings}
    if len(set(said.values())) == 1:
        return [(" and ".join(said).capitalize(), said["inputs"])]
    return [(name.capitalize(), text) for name, text in said.items()]


def record(table: Rows, found: Trained) -> dict[str, Any]:
    """The same, ready for JSON."""
    made = found.certificate
    return {
        "data": {"name": table.name, "N": table.N, "D": table.D, "notes": table.notes},
        "statement": made.statement,
        "bound": made.bound,
        "risk": made.risk,
        "nats": {"KL": made.kl, "ln|Θ|": made.log_count, "ln(ξ/δ)": made.log_xi},
        "confidence": 1.0 - made.delta,
        "loss": made.loss.to_dict(),
        "kernel": describe_kernel(made.kernel),
        "posterior": made.posterior.describe(),
        "scaling": dict(scalings(made)),
        "training": found.how,
        "notes": found.notes,
        "claims": ["P-14", "P-10", "P-44", "P-45", "P-49"],
    }


def picture(table: Rows, found: Trained) -> Any:
    """The page: predictions against truth in the band that the loss tolerates, and what the bound is made of."""
    from gpbounds import plotting

    made = found.certificate
    width, said = tolerance(table, made)
    return plotting.certificate_page(
        plotting.Predictions(table.y, found.mean, found.std, width),
        made.risk,
        [("KL(Q‖P)", made.kl), ("ln|Θ|", made.log_count), ("ln(ξ(N)/δ)", made.log_xi)],
        made.bound,
        title=as_written(title(table, made)),
        target=as_written(table.target),
        tolerated=said,
    )


def as_written(text: str) -> str:
    """``text`` for a picture, where dollar signs would start mathematics."""
    return text.replace("$", r"\$")


def tolerance(table: Rows, made: Certificate) -> tuple[float | Float, str]:
    """Deviations |v − y| at which the loss has its ε, in raw units, and in words."""
    loss: Any = made.loss
    epsilon, unit = float(loss.high if loss.name == "interval" else loss.epsilon), float(made.outputs.scale)
    value = {"squared": "< 1", "relative": "< 1", "exponential": "< 0.632"}.get(loss.name, "0")
    if loss.name in ("relative", "interval"):
        return epsilon * np.abs(table.y), f"loss {value}: within ±{epsilon:g} |y|"
    return epsilon * unit, f"loss {value}: within ±{short(epsilon * unit)}"


def title(table: Rows, made: Certificate) -> str:
    """What is claimed, with which loss and declaration, of which model, in four lines."""
    kernel = headline(made.kernel, 1.0).rpartition(", noise")[0]
    scaled = "as given" if made.outputs.origin == "as given" else "scaled by constants from other rows"
    return (
        f"{table.name}, N = {table.N:,}, D = {table.D}: with probability {100 * (1 - made.delta):g} % the Gibbs risk "
        f"is at most {decimal(made.bound, True, 4)}\nLoss {made.loss!r}; inputs and target {scaled}\n{kernel}\n"
        f"Q: {made.posterior.describe()}"
    )
