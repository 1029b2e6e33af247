"""Reading a certificate's file, schema 1, field by field."""

from __future__ import annotations

from typing import Any

from gpbounds.losses import from_dict as loss_from_dict
from gpbounds.pacbayes.certificate import posteriors, priors
from gpbounds.pacbayes.certificate.declarations import Charge, Scaling
from gpbounds.pacbayes.certificate.fields import Fields
from gpbounds.pacbayes.certificate.fingerprint import Fingerprint
from gpbounds.pacbayes.certificate.mean import DeclaredMean
from gpbounds.pacbayes.certificate.statement import NUMBERS
from gpbounds.pacbayes.grid import HyperGrid


def from_dict(record: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Certificate`, from the record that `Statement.to_dict` wrote.

    Raises
    ------
    ValueError
        for a field that is missing, unknown, of another kind or out of range; the message names it.
    """
    fields = Fields(record, "certificate")
    for name in ("format", "schema"):
        fields.take(name)
    rigorous = fields.truth("rigorous")
    versions = fields.part("versions")
    arguments: dict[str, Any] = {
        "inputs": _scaling(fields.part("inputs")),
        "outputs": _scaling(fields.part("outputs")),
        "charges": tuple(_charge(part) for part in fields.parts("charges")),
        "loss": _loss(fields.part("loss")),
        "grid": _grid(fields.part("grid")),
        "indices": fields.integers("indices"),
        "kernel": priors.from_fields(fields.part("kernel")),
        "posterior": posteriors.from_fields(fields.part("posterior")),
        "data": _data(fields.part("data")),
        **{name: fields.number(name) for name in NUMBERS},
        "versions": {name: versions.text(name) for name in list(versions.record)},
        "seal": fields.digest("seal"),
        "mean": _mean(fields.part("mean")) if "mean" in fields.record else None,
    }
    fields.done()
    if rigorous != (arguments["inputs"].rigorous and arguments["outputs"].rigorous):
        raise ValueError(f"certificate.rigorous: expected {not rigorous}, as the scalings imply, got {rigorous}")
    return arguments


def _scaling(fields: Fields) -> Scaling:
    constants = {name: fields.numbers(name) for name in ("shift", "scale")}
    scaling = fields.built(lambda: Scaling(fields.text("origin"), **constants, count=fields.integer("count")))
    fields.done()
    return scaling


def _mean(fields: Fields) -> DeclaredMean:
    numbers = fields.number("intercept"), fields.array("slopes", 1)
    grid = fields.number("edge"), fields.integer("steps")
    mean = fields.built(lambda: DeclaredMean(fields.text("origin"), *numbers, *grid))
    fields.done()
    return mean


def _charge(fields: Fields) -> Charge:
    charge = fields.built(lambda: Charge(fields.text("what"), fields.integer("count")))
    fields.done()
    return charge


def _loss(fields: Fields) -> Any:
    return fields.built(lambda: loss_from_dict(fields.record))


def _grid(fields: Fields) -> HyperGrid:
    edges = fields.numbers("low"), fields.numbers("high")
    grid = fields.built(lambda: HyperGrid(*edges, fields.integers("steps"), fields.texts("names")))
    fields.done()
    return grid


def _data(fields: Fields) -> Fingerprint:
    data = Fingerprint(fields.digest("sha256"), fields.natural("rows"), fields.natural("columns"))
    fields.done()
    return data
