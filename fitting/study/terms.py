"""A certificate as a table and as a figure: the terms of its bound, what it rests on, other forms beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fitting.study.guarantee import FORMS, NAMES, AnyCertificate, confidence, relied_on
from fitting.study.words import describe_kernel, headline
from gpbounds import plotting
from gpbounds.arrays import Float
from gpbounds.pacbayes import Certificate, CoverageCertificate, HeldOutCertificate
from gpbounds.pacbayes.certificate.checking import DRAWS, split_line
from gpbounds.pacbayes.certificate.statement import risk_bound
from gpbounds.rigor import decimal
from gpbounds.texts import as_written, short

DECLARED = (
    "You declare that loss, epsilon, delta, kernel, grid and scaling were fixed before the data were seen; no file can "
    "prove this."
)
_OF_OTHER_ROWS = (
    "You declare that loss, epsilon and delta were fixed before the data were seen, and that prior and scaling came "
    "from rows that are not certified; no file can prove this."
)

Predictions = Callable[[], tuple[Any, Any, Any]]
"""Targets, and means and standard deviations of the latent predictions, arrays (n,) in the units of the targets.

For labels: labels, predicted labels, and anything; a certificate of predictions has its own and takes the targets only.
"""


class Account(ABC):
    """What a page and a figure say of one certificate."""

    wording = plotting.Wording()

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate

    @abstractmethod
    def facts(self) -> str:
        """What is certified, in a sentence or two."""

    @abstractmethod
    def terms(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of each term of the bound."""

    @abstractmethod
    def rests_on(self) -> list[str]:
        """The declarations."""

    @property
    @abstractmethod
    def shown(self) -> float:
        """What the certified rows show: the part of the bound that is no price."""

    @abstractmethod
    def costs(self) -> list[tuple[str, float]]:
        """The other terms of the bound, in nats."""

    @abstractmethod
    def title(self, name: str, others: Sequence[Any]) -> str:
        """Lines above the figure; ``others`` are certificates for other ε."""

    def stack(self, name: str) -> plotting.Stack:
        """The bound as a bar with this name."""
        return plotting.Stack(name, min(self.shown, self.certificate.bound), self.costs(), self.certificate.bound)

    @property
    def form(self) -> str:
        """Two lines: how the bound comes about, and whose risk it bounds."""
        whose = {"gibbs": "drawn predictions", "mean": "mean prediction"}
        return f"{NAMES[self.certificate.method]}\n{whose.get(self.certificate.predictor, 'the prediction')}"

    @property
    def alone(self) -> float:
        """The probability with which the bound may fail, whatever the other forms do."""
        charged = [charge.count for charge in self.certificate.charges if charge.choice == FORMS]
        return float(self.certificate.delta / np.prod(charged or [1]))

    def panel(self, at_rows: tuple[Any, Any, Any]) -> tuple[plotting.Predictions | plotting.Labels | None, str]:
        """Predictions beside targets, and what the loss tolerates."""
        y, mean, std = at_rows
        width, label = tolerance(self.certificate, y)
        return plotting.Predictions(y, mean, std, width), label

    def figure(
        self,
        at_rows: tuple[Any, Any, Any] | None,
        name: str = "",
        target: str = "target",
        others: Sequence[Any] = (),
        forms: Sequence[Any] = (),
    ) -> Any:
        """Predictions at the certified rows, where ``at_rows`` has them, and the bound with its terms.

        ``others`` are certificates for other ε, ``forms`` those of other forms, all of which hold together with this
        one: the figure then shows every bound.
        """
        panel, label = (None, "") if at_rows is None else self.panel(at_rows)
        own = self.stack("")
        several = [account_of(each).stack(f"{accuracy(each):g}") for each in (self.certificate, *others) if others]
        together = [_among_forms(each) for each in (self.certificate, *forms) if forms]
        return plotting.certificate_page(
            panel,
            own.risk,
            own.costs,
            own.bound,
            title=as_written(self._of_forms(name, forms) if forms else self.title(name, others)),
            target=as_written(target),
            tolerated=label or "tolerated",
            several=several,
            forms=together,
            wording=_OF_FORMS if forms else self.wording,
        )

    def _of_forms(self, name: str, forms: Sequence[Any]) -> str:
        certificate = self.certificate
        lead = f"{name}, " if name else ""
        rows = f"{lead}N = {certificate.data.rows:,}, D = {certificate.data.columns}"
        share = confidence(certificate.delta)
        return (
            f"{rows}: with probability {share} % these {1 + len(forms)} bounds hold together\n{relied_on(certificate)}"
        )


_OF_FORMS = plotting.Wording("mean loss on the certified rows", "Mean loss of a new row")


def _among_forms(certificate: Any) -> plotting.Stack:
    account = account_of(certificate)
    rows = f"n = {certificate.rows:,}\nalone: {confidence(account.alone)} %"
    stack = account.stack(f"{account.form}\n{rows}")
    return stack._replace(costs=[("ln choices" if cost == "ln|Θ|" else cost, nats) for cost, nats in stack.costs])


class OfPosterior(Account):
    """Of a Gaussian process posterior Q: R_S, and the price of leaving the prior."""

    certificate: Certificate

    @property
    def _tandem(self) -> bool:
        """Whether four times the bound on the tandem risk is the smaller one."""
        each = self.certificate
        if each.tandem is None:
            return False
        rest = each.count, each.rows, each.delta
        return 4.0 * risk_bound(each.tandem, 2.0 * each.kl, *rest) < 2.0 * risk_bound(each.risk, each.kl, *rest)

    @property
    def wording(self) -> plotting.Wording:  # type: ignore[override]
        if self.certificate.tandem is None:
            return plotting.Wording()
        axis = "Risk of the mean prediction"
        if self._tandem:
            formula = (
                "bound = $4\\,\\mathrm{kl}^{-1}(T_S,\\ \\mathrm{nats}/n)$, $T_S$ the mean of $(\\mathrm{E}\\,\\ell)^2$"
            )
            return plotting.Wording("$4\\,T_S$ on these rows", axis, formula)
        return plotting.Wording(
            "$2\\,R_S$ on these rows", axis, "bound = $2\\,\\mathrm{kl}^{-1}(R_S,\\ \\mathrm{nats}/n)$"
        )

    @property
    def shown(self) -> float:
        each = self.certificate
        if each.tandem is None:
            return each.risk
        return 4.0 * each.tandem if self._tandem else 2.0 * each.risk

    def costs(self) -> list[tuple[str, float]]:
        each = self.certificate
        count = "ln|Θ|" if each.grid.size > 1 else "ln choices"
        nats = [("KL(Q‖P)", (2.0 if self._tandem else 1.0) * each.kl), (count, each.log_count)]
        return [*((name, cost) for name, cost in nats if cost > 0.0), ("ln(ξ(N)/δ)", each.log_xi)]

    def facts(self) -> str:
        each = self.certificate
        where = "on the grid" if each.method == "pac-bayes" else "from other rows"
        return f"Prior: {describe_kernel(each.kernel)}, {where}. Q: {each.posterior.describe()}."

    def terms(self) -> list[tuple[str, str, str]]:
        each = self.certificate
        n = each.rows
        rows = [
            ("KL/N", each.kl, f"{each.kl:.6g}/{n}"),
            ("ln|Θ|/N", each.log_count, f"{each.log_count:.6g}/{n}: {_choices(each)}"),
            ("ln(ξ/δ)/N", each.log_xi, f"{each.log_xi:.6g}/{n}"),
        ]
        total = each.kl + each.log_count + each.log_xi
        listed = [
            *((name, f"{nats / n:.6f}", origin) for name, nats, origin in rows),
            ("d, their sum", f"{total / n:.6f}", ""),
            ("R_S", f"{each.risk:.6f}", f"{each.loss!r} on these {n} rows"),
        ]
        if each.tandem is None:
            return [*listed, ("kl⁻¹(R_S, d)", decimal(each.bound, True, 6), "the bound; 1 is vacuous")]
        rest = each.count, n, each.delta
        once, tandem = risk_bound(each.risk, each.kl, *rest), risk_bound(each.tandem, 2.0 * each.kl, *rest)
        return [
            *listed,
            ("2 kl⁻¹(R_S, d)", decimal(2.0 * once, True, 6), "the mean prediction errs at most twice as often"),
            ("T_S", f"{each.tandem:.6f}", "mean of (E ℓ)² on these rows"),
            ("4 kl⁻¹(T_S, d + KL/N)", decimal(4.0 * tandem, True, 6), "likewise, by pairs of draws"),
            ("the least of both", decimal(each.bound, True, 6), "the bound; 1 is vacuous"),
        ]

    def rests_on(self) -> list[str]:
        each = self.certificate
        declared = [DECLARED if each.method == "pac-bayes" else _OF_OTHER_ROWS]
        declared += [f"{name} were {text}." for name, text in scalings(each)]
        declared += [] if each.mean is None else [each.mean.describe()]
        return [*declared, *(line.text for line in split_line(each)), DRAWS.text]

    def panel(self, at_rows: tuple[Any, Any, Any]) -> tuple[plotting.Predictions | plotting.Labels | None, str]:
        return (None, "") if self.certificate.loss.name == "sign" else super().panel(at_rows)

    def title(self, name: str, others: Sequence[Any]) -> str:
        """Four lines: the claim, loss and scaling, the kernel, the posterior; of several, those of the first."""
        each = self.certificate
        kernel = headline(each.kernel, 1.0).rpartition(", noise")[0]
        scaling = "as given" if each.outputs.origin == "as given" else "scaled by constants from other rows"
        certified = "" if each.split is None else f" (of {each.data.rows:,})"
        lead = f"{name}, " if name else ""
        rows = f"{lead}N = {each.rows:,}{certified}, D = {each.data.columns}: with probability "
        share, own = f"{confidence(each.delta)} %", ""
        risk = "Gibbs risk" if each.tandem is None else "risk of the mean prediction"
        if others:
            claim = f"{share} all {1 + len(others)} bounds on the {risk} hold together"
            values = ", ".join(f"{accuracy(other):g}" for other in (each, *others))
            loss, own = f"Loss {each.loss.name}, E = {values}", f"E = {accuracy(each):g}: "
        else:
            claim = f"{share} the {risk} is at most {decimal(each.bound, True, 4)}"
            loss = f"Loss {each.loss!r}"
        posterior = each.posterior.describe()
        return f"{rows}{claim}\n{loss}; inputs and target {scaling}\n{own}{kernel}\n{own}Q: {posterior}"


class OfPredictions(Account):
    """Of recorded predictions of a fixed model."""

    certificate: Any

    def costs(self) -> list[tuple[str, float]]:
        return [("ln(1/δ)", -float(np.log(self.certificate.share)))]

    def facts(self) -> str:
        each = self.certificate
        return f"Model: {each.predictor}. Its predictions for {each.rows:,} rows are recorded."

    def _share(self) -> tuple[str, str, str]:
        each = self.certificate
        lists = ", ".join(f"{charge.count} {charge.choice}" for charge in each.charges)
        return "δ", f"{each.share:.6g}", f"{each.delta:g}/{each.count}: {lists}" if lists else ""

    def rests_on(self) -> list[str]:
        return [line.text for line in self.certificate._declared()]

    def title(self, name: str, others: Sequence[Any]) -> str:
        """Two lines: what may be relied on, and the model."""
        each = self.certificate
        lead = f"{name}, " if name else ""
        if others:
            share = confidence(each.delta)
            values = ", ".join(f"{accuracy(other):g}" for other in (each, *others))
            claim = f"n = {each.rows:,}, E = {values}: with probability {share} % these bounds hold together"
        else:
            claim = relied_on(each)
        return f"{lead}{claim}\nModel: {each.predictor}"


class OfLosses(OfPredictions):
    """Of counted mistakes, or of a mean loss."""

    certificate: HeldOutCertificate

    @property
    def wording(self) -> plotting.Wording:  # type: ignore[override]
        if self.certificate.mistakes is None:
            formula = "bound = $\\mathrm{kl}^{-1}(\\hat R,\\ \\mathrm{nats}/n)$"
            return plotting.Wording("mean loss on these rows", "Mean loss of a new row", formula)
        formula = "bound = the $1-\\delta$ quantile of Beta($k+1$, $n-k$)"
        return plotting.Wording("share of mistakes", "Share of new rows with a mistake", formula)

    @property
    def shown(self) -> float:
        return self.certificate.risk

    def terms(self) -> list[tuple[str, str, str]]:
        each = self.certificate
        n = each.rows
        if each.mistakes is None:
            first = ("R̂", f"{each.risk:.6f}", f"{each.loss!r} on these {n} rows")
            origin = "kl⁻¹(R̂, ln(1/δ)/n), the bound; 1 is vacuous"
        else:
            what = "wrong labels" if each.loss is None else repr(each.loss)
            first = ("k", f"{each.mistakes} of {n}", f"{what} on these rows")
            k = each.mistakes
            origin = f"the 1 − δ quantile of Beta({k + 1}, {n - k}), the bound" if k < n else "every row is a mistake"
        return [first, self._share(), ("B", decimal(each.bound, True, 6), origin)]

    def panel(self, at_rows: tuple[Any, Any, Any]) -> tuple[plotting.Predictions | plotting.Labels | None, str]:
        each = self.certificate
        if each.classes is None:
            return super().panel((at_rows[0], each.predictions, at_rows[2]))
        names = [str(label) for label in each.classes]
        predicted = [names[int(place)] if place >= 0.0 else "another" for place in each.predictions]
        return plotting.Labels([str(label) for label in np.asarray(at_rows[0]).tolist()], predicted), ""


class OfIntervals(OfPredictions):
    """Of intervals m ± κs."""

    certificate: CoverageCertificate
    wording = plotting.Wording(
        "share of rows outside",
        "Share of new targets outside of their interval",
        "$\\kappa$ = the $k$-th smallest $|y-m|/s$ of $n$ rows",
    )

    @property
    def shown(self) -> float:
        return 1.0 - self.certificate.rank / self.certificate.rows

    def terms(self) -> list[tuple[str, str, str]]:
        each = self.certificate
        origin = f"the least k with P(Beta(k, n + 1 − k) ≥ {each.level:g}) ≥ 1 − δ"
        return [
            ("k", f"{each.rank} of {each.rows}", origin),
            self._share(),
            ("κ", decimal(each.factor, True, 6), "the k-th smallest |y − m|/s of these rows"),
        ]

    def figure(
        self,
        at_rows: tuple[Any, Any, Any] | None,
        name: str = "",
        target: str = "target",
        others: Sequence[Any] = (),
        forms: Sequence[Any] = (),
    ) -> Any:
        if at_rows is None:
            return super().figure(None, name, target, others, forms)
        each, y = self.certificate, np.asarray(at_rows[0], dtype=np.float64)
        mean, reach = each.predictions, each.factor * each.spread
        return plotting.intervals_page(
            plotting.Intervals(y, mean, mean - reach, mean + reach),
            np.abs(y - mean) / each.spread,
            rank=each.rank,
            factor=each.factor,
            level=each.level,
            title=as_written(self.title(name, others)),
            target=as_written(target),
        )


_ACCOUNTS: dict[str, type[Account]] = {
    "pac-bayes": OfPosterior,
    "data-prior": OfPosterior,
    "held-out": OfLosses,
    "coverage": OfIntervals,
}


def account_of(certificate: AnyCertificate) -> Account:
    """What a page and a figure say of ``certificate``, of whatever kind."""
    return _ACCOUNTS[certificate.method](certificate)


def _choices(certificate: Certificate) -> str:
    """The logarithms that are paid for choices."""
    G = certificate.grid
    steps = G.steps
    if len(set(steps)) == 1:
        points = f"{G.T} ln({steps[0] + 1})"
    else:
        points = " + ".join(f"ln({g + 1})" for g in steps)
    paid = [f"ln({charge.count}) for {charge.choice}" for charge in certificate.charges]
    paid += [] if certificate.tandem is None else ["ln(2) for two bounds on the mean prediction"]
    return " + ".join([points, *paid])


def of_forms(certificates: Sequence[AnyCertificate]) -> list[tuple[str, str, str, str, str]]:
    """A row for each form: its name, whose risk it bounds, what the rows show, the bound, its own probability."""
    rows = []
    for each in certificates:
        account = account_of(each)
        name, whose = account.form.split("\n")
        seen = f"{min(account.shown, 1.0):.4g} on {each.rows:,} rows"
        rows.append((name, whose, seen, decimal(each.bound, True, 4), f"{confidence(account.alone)} %"))
    return rows


def terms(certificate: AnyCertificate) -> list[tuple[str, str, str]]:
    """Name, value and origin of each term of the bound."""
    return account_of(certificate).terms()


def figure(
    certificate: AnyCertificate,
    y: Float,
    mean: Float,
    std: Float,
    name: str = "",
    target: str = "target",
    others: Sequence[AnyCertificate] = (),
    forms: Sequence[AnyCertificate] = (),
) -> Any:
    """The figure of a certificate and of the predictions at rows with targets y (n,); see `Account.figure`."""
    return account_of(certificate).figure((y, mean, std), name, target, others, forms)


def accuracy(certificate: Any) -> float:
    """The ε of the loss, in units of the scaled target, or as a share of it; NaN for a loss without one."""
    loss: Any = certificate.loss
    if loss is None or loss.name == "sign":
        return float("nan")
    return float(loss.high if loss.name == "interval" else loss.epsilon)


def scalings(certificate: Certificate) -> list[tuple[str, str]]:
    """The scalings that the certificate declares, as text."""
    descriptions = {name: scaling.describe() for name, scaling in certificate.scalings}
    if len(set(descriptions.values())) == 1:
        return [(" and ".join(descriptions).capitalize(), descriptions["inputs"])]
    return [(name.capitalize(), text) for name, text in descriptions.items()]


def tolerance(certificate: Any, y: Float) -> tuple[float | Float, str]:
    """The deviation |v − y| that the loss tolerates, in raw units, and a label for it."""
    loss, epsilon, unit = certificate.loss, accuracy(certificate), float(np.ravel(certificate.outputs.scale)[0])
    value = {"squared": "< 1", "relative": "< 1", "exponential": "< 0.632"}.get(loss.name, "0")
    if loss.name in ("relative", "interval"):
        return epsilon * np.abs(y), f"loss {value}: within ±{epsilon:g} |y|"
    return epsilon * unit, f"loss {value}: within ±{short(epsilon * unit)}"
