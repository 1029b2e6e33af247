"""A certificate of a fitted model as text, as a page and as a figure: the terms of its bound, and what it declares."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.answer import PAGES, Answer, inline
from fitting.study.words import describe_kernel, headline
from gpbounds.arrays import Float
from gpbounds.pacbayes import Certificate
from gpbounds.rigor import decimal
from gpbounds.texts import short

DECLARED = (
    "You declare that loss, epsilon, delta, kernel, grid and scaling were fixed before the data were seen; no file can "
    "prove this."
)

Predictions = Callable[[], tuple[Float, Float, Float]]
"""Targets, and means and standard deviations of the latent predictions, arrays (n,) in the units of the targets."""


class ModelCertificate(Certificate, Answer):
    """A `gpbounds.pacbayes.Certificate` of a model that is at hand: with its page and its figure.

    It is equal to the certificate that `Certificate.load` reads from its file.
    """

    _predictions: Predictions | None = None

    @classmethod
    def of(cls, certificate: Certificate, predictions: Predictions | None) -> ModelCertificate:
        """The same certificate; without ``predictions`` the figure shows the terms of the bound only."""
        made = cls(**{field.name: getattr(certificate, field.name) for field in fields(certificate)})
        object.__setattr__(made, "_predictions", predictions)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (``.html``), or the certificate as JSON, which `Certificate.load` reads (any other name)."""
        if Path(path).suffix.lower() in PAGES:
            Answer.save(self, path)
        else:
            Certificate.save(self, path)

    def page(self) -> str:
        """The page for a browser: the statement, what it rests on, and the terms of the bound."""
        from gpbounds.pages import html

        declared = [DECLARED, *(f"{name} were {text}." for name, text in scalings(self))]
        declared += [] if self.mean is None else [self.mean.describe()]
        facts = f"Prior: {describe_kernel(self.kernel)}, on the grid. Q: {self.posterior.describe()}."
        body = [
            f"<header><h1>Risk certificate</h1>\n<p>{html.escaped(facts)}</p></header>\n<main>\n",
            f"<p><strong>{html.escaped(self.statement)}</strong></p>\n",
            f"<figure>{inline(self.plot())}</figure>\n",
            html.table(("term", "value", "from"), terms(self)),
            "<h2>What this rests on</h2>\n<ul>",
            *(f"<li>{html.escaped(text)}</li>\n" for text in declared),
            "</ul>\n</main>",
        ]
        return html.document("Risk certificate", "".join(body), style=STYLE)

    def plot(self) -> Any:
        """Predictions against targets with the band that the loss tolerates, and the terms of the bound."""
        from gpbounds import plotting

        if self._predictions is not None:
            return figure(self, *self._predictions())
        return plotting.certificate_page(None, self.risk, costs(self), self.bound, title=as_written(title(self, "")))


STYLE = "figure svg { max-width: 100%; height: auto; background: #fff; }"


def costs(certificate: Certificate) -> list[tuple[str, float]]:
    """The terms of the bound other than the risk, in nats."""
    nats = (certificate.kl, certificate.log_count, certificate.log_xi)
    return list(zip(("KL(Q‖P)", "ln|Θ|", "ln(ξ(N)/δ)"), nats, strict=True))


def figure(
    certificate: Certificate,
    y: Float,
    mean: Float,
    std: Float,
    name: str = "",
    target: str = "target",
    others: Sequence[Certificate] = (),
) -> Any:
    """The figure of a certificate and of the predictions at rows with targets y (n,).

    ``others`` are certificates for other values of ε that hold together with it: the figure shows every bound, and the
    predictions of ``certificate``.
    """
    from gpbounds import plotting

    width, label = tolerance(certificate, y)
    all_bounds = [
        plotting.Stack(f"{accuracy(each):g}", each.risk, costs(each), each.bound) for each in (certificate, *others)
    ]
    return plotting.certificate_page(
        plotting.Predictions(y, mean, std, width),
        certificate.risk,
        costs(certificate),
        certificate.bound,
        title=as_written(title(certificate, name, others)),
        target=as_written(target),
        tolerated=label,
        several=all_bounds if others else (),
    )


def accuracy(certificate: Certificate) -> float:
    """The ε of the loss, in units of the scaled target, or as a share of it."""
    loss: Any = certificate.loss
    return float(loss.high if loss.name == "interval" else loss.epsilon)


def terms(certificate: Certificate) -> list[tuple[str, str, str]]:
    """Name, value and origin of each term of the bound."""
    N, G = certificate.data.rows, certificate.grid
    if len(set(G.steps)) == 1:
        points = f"{G.T} ln({G.steps[0] + 1})"
    else:
        points = " + ".join(f"ln({g + 1})" for g in G.steps)
    rows = [
        ("KL/N", certificate.kl, f"{certificate.kl:.6g}/{N}"),
        ("ln|Θ|/N", certificate.log_count, f"{certificate.log_count:.6g}/{N}: {points}"),
        ("ln(ξ/δ)/N", certificate.log_xi, f"{certificate.log_xi:.6g}/{N}"),
    ]
    per_datum = [(name, f"{nats / N:.6f}", origin) for name, nats, origin in rows]
    total = certificate.kl + certificate.log_count + certificate.log_xi
    return [
        *per_datum,
        ("d, their sum", f"{total / N:.6f}", ""),
        ("R_S", f"{certificate.risk:.6f}", f"{certificate.loss!r} on these {N} rows"),
        ("kl⁻¹(R_S, d)", decimal(certificate.bound, True, 6), "the bound; 1 is vacuous"),
    ]


def scalings(certificate: Certificate) -> list[tuple[str, str]]:
    """The scalings that the certificate declares, as text."""
    descriptions = {name: scaling.describe() for name, scaling in certificate.scalings}
    if len(set(descriptions.values())) == 1:
        return [(" and ".join(descriptions).capitalize(), descriptions["inputs"])]
    return [(name.capitalize(), text) for name, text in descriptions.items()]


def tolerance(certificate: Certificate, y: Float) -> tuple[float | Float, str]:
    """The deviation |v − y| that the loss tolerates, in raw units, and a label for it."""
    loss, epsilon, unit = certificate.loss, accuracy(certificate), float(certificate.outputs.scale)
    value = {"squared": "< 1", "relative": "< 1", "exponential": "< 0.632"}.get(loss.name, "0")
    if loss.name in ("relative", "interval"):
        return epsilon * np.abs(y), f"loss {value}: within ±{epsilon:g} |y|"
    return epsilon * unit, f"loss {value}: within ±{short(epsilon * unit)}"


def as_written(text: str) -> str:
    """``text`` with dollar signs escaped, because matplotlib would read them as mathematics."""
    return text.replace("$", r"\$")


def title(certificate: Certificate, name: str, others: Sequence[Certificate] = ()) -> str:
    """Four lines: the claim, the loss and the scaling, the kernel, the posterior; of several, those of the first."""
    kernel = headline(certificate.kernel, 1.0).rpartition(", noise")[0]
    scaling = "as given" if certificate.outputs.origin == "as given" else "scaled by constants from other rows"
    lead = f"{name}, " if name else ""
    rows = f"{lead}N = {certificate.data.rows:,}, D = {certificate.data.columns}: with probability "
    share, own = f"{100 * (1 - certificate.delta):g} %", ""
    if others:
        claim = f"{share} all {1 + len(others)} bounds on the Gibbs risk hold together"
        values = ", ".join(f"{accuracy(each):g}" for each in (certificate, *others))
        loss, own = f"Loss {certificate.loss.name}, E = {values}", f"E = {accuracy(certificate):g}: "
    else:
        claim = f"{share} the Gibbs risk is at most {decimal(certificate.bound, True, 4)}"
        loss = f"Loss {certificate.loss!r}"
    return (
        f"{rows}{claim}\n{loss}; inputs and target {scaling}\n{own}{kernel}\n{own}Q: {certificate.posterior.describe()}"
    )
