"""The contents of a certificate: numbers, declarations and the record of Q, as a frozen record and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.bound import outward
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes.certificate import files, priors
from gpbounds.pacbayes.certificate.declarations import Charge, Scaling
from gpbounds.pacbayes.certificate.fingerprint import Fingerprint
from gpbounds.pacbayes.certificate.mean import DeclaredMean
from gpbounds.pacbayes.certificate.posteriors import Posterior
from gpbounds.pacbayes.certificate.report import NOT_RIGOROUS
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.validation import finite

NUMBERS = ("delta", "risk", "kl", "log_count", "log_xi", "bound")


@dataclass(frozen=True, eq=False)
class Statement:
    """An upper bound on the Gibbs risk of a GP posterior Q, with everything that a third party needs to recompute it.

    Attributes
    ----------
    loss : Loss
        With its ε, in the units of the scaled outputs.
    delta : float
    grid : HyperGrid
    indices : tuple of int
        θ's place in the grid.
    kernel : Kernel
        The prior's kernel at θ.
    posterior : Posterior
        The record that defines Q.
    inputs, outputs : Scaling
        How the raw data were scaled.
    charges : tuple of Charge
        Choices from lists made in advance.
    data : Fingerprint
        Of the raw data.
    risk, kl : float
        R_S(Q) and KL(Q‖P^θ), with an allowance for rounding above their values.
    log_count, log_xi : float
        ln(|Θ|·charges) and ln(ξ(N)/δ), rounded up.
    bound : float
    versions : dict of str to str
        Versions of the software that issued it.
    seal : str
        See `files.seal`.
    mean : DeclaredMean or None
        The prior's mean; None is 0.
    """

    loss: Loss
    delta: float
    grid: HyperGrid
    indices: tuple[int, ...]
    kernel: Kernel
    posterior: Posterior
    inputs: Scaling
    outputs: Scaling
    charges: tuple[Charge, ...]
    data: Fingerprint
    risk: float
    kl: float
    log_count: float
    log_xi: float
    bound: float
    versions: dict[str, str]
    seal: str = ""
    mean: DeclaredMean | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            *((name, 0.0, 1.0) for name in ("delta", "risk", "bound")),
            *((name, 0.0, np.inf) for name in ("kl", "log_count", "log_xi")),
        ):
            value = float(finite(name, getattr(self, name)))
            if not low <= value <= high or (name == "delta" and value in (0.0, 1.0)):
                raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")
            object.__setattr__(self, name, value + 0.0)

    @property
    def rigorous(self) -> bool:
        """False if the scaling was computed from the same data."""
        return self.inputs.rigorous and self.outputs.rigorous

    @property
    def scalings(self) -> tuple[tuple[str, Scaling], ...]:
        """Both scalings, by name."""
        return ("inputs", self.inputs), ("outputs", self.outputs)

    @property
    def count(self) -> int:
        """The number of priors and losses in the union bound: |Θ| times the lengths of all lists."""
        lists = [charge.count for charge in self.charges] + [scaling.count for _, scaling in self.scalings]
        means = 1 if self.mean is None else self.mean.count
        return int(np.prod([self.grid.size, *lists, means], dtype=object))

    @property
    def statement(self) -> str:
        """The claim in one sentence."""
        lead = "" if self.rigorous else "Had the scaling been fixed in advance: "
        return (
            f"{lead}With probability at least 1 − {outward(self.delta, 'upper')} over the draw of the "
            f"{self.data.rows} rows, the Gibbs risk of Q, the mean of {self.loss!r} on a new row, is at most "
            f"{self.bound!r}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON; `schema.from_dict` reads it back."""
        return {
            "format": files.FORMAT,
            "schema": files.SCHEMA,
            "rigorous": self.rigorous,
            "inputs": self.inputs.to_dict(),
            "outputs": self.outputs.to_dict(),
            "charges": [charge.to_dict() for charge in self.charges],
            "loss": self.loss.to_dict(),
            "grid": self.grid.to_dict(),
            "indices": list(self.indices),
            "kernel": priors.to_dict(self.kernel),
            "posterior": self.posterior.to_dict(),
            "data": self.data.to_dict(),
            **{name: getattr(self, name) for name in NUMBERS},
            "versions": dict(self.versions),
            **({} if self.mean is None else {"mean": self.mean.to_dict()}),
            "seal": self.seal,
        }

    def fresh_seal(self) -> str:
        """The seal of the present record."""
        return files.seal(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.fresh_seal())

    def __str__(self) -> str:
        lead = "" if self.rigorous else f"{NOT_RIGOROUS} "
        return f"{lead}{self.statement} KL = {self.kl:.6g}, R_S = {self.risk:.6g}. Q: {self.posterior.describe()}."
