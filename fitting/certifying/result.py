"""What `certify` returns: a certificate with its page and its figure, the model, and the forms that hold together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fitting.study.answer import PAGES, Answer, inline
from fitting.study.guarantee import relied_on, when_held_out
from fitting.study.terms import Predictions as Shown
from fitting.study.terms import account_of, of_forms
from gpbounds.pacbayes import Certificate, CoverageCertificate, HeldOutCertificate

__all__ = ["Shown", "finished"]


def finished(certificate: Any, predictions: Shown | None = None, model: Any = None, forms: Sequence[Any] = ()) -> Any:
    """The certificate with its page and its figure; of its kind, and equal to it.

    Parameters
    ----------
    certificate : Certificate, HeldOutCertificate or CoverageCertificate
    predictions : function, optional
        Targets, predictions and their standard deviations at the certified rows, computed when a figure asks for them;
        for labels the labels.  Without it the figure shows the terms of the bound only.
    model : object, optional
        The fitted model that is certified; it is not stored.
    forms : sequence of certificates
        All certificates that hold together with this one.
    """
    made = _remade(_PAGED[_kind_of(type(certificate))], vars(certificate))
    others = sorted((each for each in forms if each != certificate), key=lambda each: float(each.bound))
    made.__dict__.update(_predictions=predictions, model=model, _others=tuple(others))
    return made


class _Paged:
    """The page and the figure of a certificate; a class of each kind is made with this in front."""

    _predictions: Shown | None = None
    _others: tuple[Any, ...] = ()
    model: Any = None

    @property
    def forms(self) -> tuple[Any, ...]:
        """All certificates that hold together, this one first, the others by their bounds."""
        return (self, *self._others)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (``.html``), or the certificate as JSON, which `Certificate.load` reads (any other name)."""
        if Path(path).suffix.lower() in PAGES:
            Answer.save(self, path)  # type: ignore[arg-type]
        else:
            super().save(path)  # type: ignore[misc]

    def page(self) -> str:
        """The page for a browser: what may be relied on, the terms of the bound, and what it rests on."""
        from gpbounds.pages import html

        own: Any = self
        account = account_of(own)
        body = [
            f"<header><h1>Risk certificate</h1>\n<p>{html.escaped(account.facts())}</p></header>\n<main>\n",
            f"<p><strong>{html.escaped(relied_on(own))}</strong></p>\n<p>{html.escaped(own.statement)}</p>\n",
            f"<figure>{inline(self.plot())}</figure>\n",
        ]
        if self._others:
            head = ("form", "risk of", "mean loss", "bound", "holds alone with")
            body += ["<h2>All forms, which hold together</h2>\n", html.table(head, of_forms(self.forms))]
        body += [
            "<h2>The terms of the bound</h2>\n",
            html.table(("term", "value", "from"), account.terms()),
            f"<p>{html.escaped(when_held_out(own))}</p>\n",
            "<h2>What this rests on</h2>\n<ul>",
            *(f"<li>{html.escaped(text)}</li>\n" for text in account.rests_on()),
            "</ul>\n</main>",
        ]
        return html.document("Risk certificate", "".join(body), style=STYLE)

    def plot(self) -> Any:
        """Predictions at the certified rows, where they are known, and the bound with its terms, or all forms."""
        own: Any = self
        at_rows = None if self._predictions is None else self._predictions()
        return account_of(own).figure(at_rows, forms=self._others)

    def __reduce__(self) -> Any:
        """A copy is the plain certificate, without the model and what its page needs."""
        kind: Any = _kind_of(type(self))
        return _remade, (kind, {each.name: getattr(self, each.name) for each in fields(kind)})


def _remade(kind: type, attributes: dict[str, Any]) -> Any:
    """The plain certificate with these attributes, which have been checked."""
    made: Any = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


STYLE = "figure svg { max-width: 100%; height: auto; background: #fff; }"

_KINDS = (Certificate, HeldOutCertificate, CoverageCertificate)


def _kind_of(kind: type) -> type:
    """The kind of certificate whose page ``kind`` has."""
    return next(each for each in _KINDS if issubclass(kind, each))


def _paged(kind: type) -> type:
    """The kind of certificate, with its page."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (_Paged, kind, Answer), names)


_PAGED = {kind: _paged(kind) for kind in _KINDS}
