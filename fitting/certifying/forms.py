"""The forms of certificate of a model, and the best of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fitting.certifying import unseen
from fitting.certifying.asked import Asked
from fitting.certifying.gibbs import gibbs_certificates
from fitting.certifying.result import Shown, finished
from fitting.estimators import GaussianProcess
from fitting.estimators.declared import charges_of
from gpbounds.errors import NotPositiveDefinite
from gpbounds.losses import Loss
from gpbounds.pacbayes import Charge, CoverageCertificate, HeldOutCertificate, Scaling
from gpbounds.pacbayes.certificate.rows import Arrays, Raw
from gpbounds.renyi import Model

# The forms of certificate: each gives one for every loss, with its predictions for a figure, and the model.

_Made = tuple[Any, Shown | None, Any]


def _pac_bayes(asked: Asked, charges: tuple[Charge, ...] = ()) -> list[_Made]:
    model, scaling, split = asked.model, asked.scaling, None
    if asked.kind == "unfitted":
        if isinstance(scaling, str) and scaling == "prior":
            split, scaling = asked.shares, asked.units
        model = asked.fitted_to(asked.rows.certified(split))
    elif isinstance(scaling, str) and scaling == "prior":
        scaling = asked.units  # which is refused
    made = gibbs_certificates(
        model,
        asked.rows,
        asked.losses,
        delta=asked.delta,
        grid=asked.grid,
        scaling=scaling,
        mean=asked.mean,
        charges=(*asked.charges, *charges),
        nonrigorous=asked.nonrigorous,
        split=split,
    )
    return [(certificate, predictions, asked.for_raw_rows(model)) for certificate, predictions in made]


def _data_prior(asked: Asked, charges: tuple[Charge, ...] = ()) -> list[_Made]:
    from fitting.certifying.data_prior import data_prior

    if asked.kind == "given" or not isinstance(asked.model, GaussianProcess | Model):
        raise ValueError(
            f"model: expected a Gaussian process for method='data-prior', got {type(asked.model).__name__}: "
            "method='held-out' certifies the predictions of any model"
        )
    certified = data_prior(
        asked.trained,
        asked.signed,
        asked.losses,
        delta=asked.delta,
        inputs=asked.loss_units[0],
        outputs=asked.loss_units[1],
        mean=asked.mean,
        charges=(*charges_of(asked.losses), *asked.charges, *charges),
        split=asked.split,
        classes=asked.labels,
        nonrigorous=asked.nonrigorous,
    )
    return [(certificate, None, asked.for_raw_rows(asked.trained)) for certificate, _ in certified]


def _held_out(asked: Asked, charges: tuple[Charge, ...] = ()) -> list[_Made]:
    if asked.level is not None:
        return _coverage(asked, asked.level)
    predictor, model = asked.predictor, None if asked.kind == "given" else asked.for_raw_rows(asked.trained)
    predicted = predictor.at(asked.certified)
    losses: Sequence[Loss | None] = asked.losses if asked.labels is None else (None,)
    made: list[_Made] = []
    for loss in losses:
        certificate = HeldOutCertificate.issue(
            *asked.passed,
            predicted.values,
            predictor=predictor.name,
            loss=loss,
            delta=asked.delta,
            outputs=Scaling() if asked.labelled else asked.loss_units[1],
            split=asked.split,
            charges=(*charges_of(asked.losses), *asked.charges, *charges),
            classes=asked.labels,
        )
        made.append((certificate, None if asked.labelled else _shown(asked.certified, predicted), model))
    return made


def _coverage(asked: Asked, level: float) -> list[_Made]:
    if asked.labelled:
        raise ValueError("coverage: expected None for labels, got a number: intervals are for numbers")
    predictor, model = asked.predictor, None if asked.kind == "given" else asked.for_raw_rows(asked.trained)
    predicted = predictor.at(asked.certified, spread=True)
    certificate = CoverageCertificate.issue(
        *asked.passed,
        predicted.values,
        predicted.spreads,
        predictor=predictor.name if predicted.spread is not None else f"{predictor.name}, with a constant spread",
        level=level,
        delta=asked.delta,
        split=asked.split,
        charges=asked.charges,
    )
    return [(certificate, _shown(asked.certified, predicted), model)]


FORMS: dict[str, Callable[..., list[_Made]]] = {
    "pac-bayes": _pac_bayes,
    "data-prior": _data_prior,
    "held-out": _held_out,
}


def _shown(rows: Raw, predicted: unseen.UnseenPredictions) -> Shown | None:
    """Targets, predictions and spreads (0 where there is none) for a figure; None for rows in partitions."""
    if not isinstance(rows, Arrays):
        return None
    spread = np.zeros(len(rows.y)) if predicted.spread is None else predicted.spread
    return lambda: (rows.y, predicted.values, spread)


def best(asked: Asked) -> list[Any]:
    """For each loss the certificate with the least bound among the forms, each of which has its share of δ."""
    names, losses = asked.forms, asked.losses
    charges = (Charge("forms of certificate", len(names)),) if len(names) > 1 else ()
    made: list[list[_Made]] = [[] for _ in losses]
    fault: Exception | None = None
    for name in names:
        try:
            for place, each in enumerate(FORMS[name](asked, charges)):
                made[place].append(each)
        except (ValueError, ArithmeticError, NotPositiveDefinite) as error:
            fault = error
            if len(names) > 1:
                text = f"No certificate of the form {name!r}, whose share of delta is spent: {error}"
                warnings.warn(text, UserWarning, stacklevel=3)
    if fault is not None and not made[0]:
        raise fault
    results = []
    for all_forms in made:
        forms = [finished(*each) for each in all_forms]
        least = min(all_forms, key=lambda each: each[0].bound)
        results.append(finished(*least, forms=forms))
    return results
