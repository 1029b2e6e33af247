"""What `certify` returns: the certificate, with the other forms that share δ with it and the model that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitting.study.terms import ModelCertificate
from fitting.study.terms import Predictions as Shown
from gpbounds.pacbayes import Certificate


def finished(certificate: Any, predictions: Shown | None = None, model: Any = None, forms: Sequence[Any] = ()) -> Any:
    """The certificate with its page and its figure.

    Parameters
    ----------
    certificate : Certificate, HeldOutCertificate or CoverageCertificate
    predictions : function, optional
        Targets, predictions and their standard deviations at the certified rows, computed when a figure asks for them.
    model : object, optional
        The fitted model that is certified; it is not stored.
    forms : sequence of certificates
        All certificates that hold together with this one; by default this one.
    """
    made = ModelCertificate.of(certificate, predictions) if isinstance(certificate, Certificate) else certificate
    object.__setattr__(made, "model", model)
    object.__setattr__(made, "forms", tuple(forms) or (made,))
    return made
