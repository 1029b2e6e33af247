"""The common part of the PAC-GP examples (paper 002, Reeb et al.): data, scalings, figures of a trained model.

The hypotheses of a certificate are iid rows, and a prior, loss and scaling that are fixed before the rows are seen.
The paper standardises inputs and target by *all* rows, including those of training: prior and loss then depend on the
data, and no bound follows (P-45).  The tables mark such results as "not rigorous".  The rigorous variant takes the
constants from rows that are used neither for training nor for tests.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from regression_sets import UCI

from gpbounds import divergences, pacbayes
from gpbounds.files import replacing
from gpbounds.losses import Band, Exponential, Loss
from gpbounds.pacbayes import Certificate, Exact, Scaling, Sparse
from gpbounds.rows import read_table

DELTA = 0.01
PAPER, RIGOROUS = "paper", "rigorous"
VARIANTS = {
    PAPER: "standardised by all rows, as in the paper: not rigorous",
    RIGOROUS: "scaling constants from a separate tenth of the rows: rigorous",
}


@dataclass(frozen=True, eq=False)
class Part:
    """Raw rows for training and for tests, and their scalings."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    inputs: Scaling
    outputs: Scaling

    @property
    def rigorous(self) -> bool:
        return self.inputs.rigorous and self.outputs.rigorous

    @property
    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.inputs.apply(self.X), self.outputs.apply(self.y)

    @property
    def scaled_test(self) -> tuple[np.ndarray, np.ndarray]:
        return self.inputs.apply(self.X_test), self.outputs.apply(self.y_test)


@dataclass(frozen=True)
class Score:
    """One trained model.

    ``B`` is the bound of the certificate, with ξ(N); ``B_maurer`` and ``B_pin`` have 2√N instead, as in the paper.
    ``train`` is the Gibbs risk that is certified, of the loss ``loss``.  ``test`` is that of the band loss at test
    rows, as in the paper's tables, whatever the loss; ``test_own`` is that of ``loss``.  ``steps`` is the number of
    steps of training, ``stopped`` the reason why it ended.
    """

    data: str
    variant: str
    method: str
    ard: bool
    M: int
    epsilon: float
    seed: int
    N: int
    B: float
    B_maurer: float
    B_pin: float
    train: float
    test: float
    MSE: float
    KL_N: float
    noise: float
    steps: int
    stopped: str
    seconds: float
    loss: str
    test_own: float

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the experiment: two scores with the same key are the same experiment."""
        return self.data, self.loss, self.variant, self.method, self.ard, self.M, self.epsilon, self.seed, self.N


def table(path: Path | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, D) and target (N,), the last column, of a CSV file; by default of one beside the repository.

    Raises
    ------
    ValueError
        for a file that does not exist or is not a table.
    """
    place = UCI / f"{name}.csv.gz" if path is None else path
    if not place.is_file():
        raise ValueError(
            f"expected the data set {name} in {place}, got no such file: save it there as CSV with the target in the "
            "last column, or pass --data FILE"
        )
    values, _ = read_table(place)
    if values.shape[1] < 2 or values.shape[0] < 10:
        raise ValueError(f"{place}: expected 10 rows or more of inputs and a target, got shape {values.shape}")
    return values[:, :-1], values[:, -1]


def constants(origin: str, X: np.ndarray, y: np.ndarray) -> tuple[Scaling, Scaling]:
    """Scalings that standardise these rows; constant columns keep their unit."""

    def of(values: np.ndarray) -> dict[str, Any]:
        spread = values.std(axis=0)
        return {"shift": values.mean(axis=0), "scale": np.where(spread > 1e-9 * np.abs(values).max(), spread, 1.0)}

    return Scaling(origin, **of(X)), Scaling(origin, **of(y))


def split(X: np.ndarray, y: np.ndarray, variant: str, seed: int, rows: int | None = None) -> Part:
    """Split the rows: a fifth for tests, the others for training; "rigorous" takes constants from a tenth of all rows.

    Both variants of a seed have the same test rows, and the rigorous one trains on a subset of the other's rows.
    """
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    N = len(order)
    tested = math.ceil(0.2 * N)  # 102 of 506 in the paper
    test, rest = order[:tested], order[tested:]
    if variant == PAPER:
        scalings = constants("same data", X[order], y[order])
    else:
        apart, rest = rest[: round(0.1 * N)], rest[round(0.1 * N) :]
        scalings = constants("disjoint split", X[apart], y[apart])
    return Part(X[rest], y[rest], X[test], y[test], *scalings)


def bounds(certificate: Certificate) -> dict[str, Any]:
    """The certified bound, and those with 2√N, from the terms of the certificate."""
    printed = partial(
        pacbayes.bound,
        certificate.risk,
        certificate.kl,
        certificate.data.rows,
        delta=certificate.delta,
        log_prior_penalty=certificate.log_count,
        form="printed",
    )
    return {"B": certificate.bound, "B_maurer": float(printed()), "B_pin": float(printed(relaxation="pinsker"))}


def predicted(certificate: Certificate, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Latent mean and variance of the certified Q at the test rows, in scaled units."""
    X, y = part.scaled
    kernel, posterior = certificate.kernel, certificate.posterior
    if isinstance(posterior, Exact):
        prediction = divergences.full_posterior(kernel, X, y, noise=posterior.noise).predict(part.scaled_test[0])
    else:
        assert isinstance(posterior, Sparse)
        posterior_of_u = divergences.collapsed_posterior(
            kernel, X, y, posterior.Z, noise=posterior.noise, power=posterior.power, jitter=posterior.jitter
        )
        prediction = posterior_of_u.predict(part.scaled_test[0])
    return np.asarray(prediction.mean), np.asarray(prediction.variance)


def figures(certificate: Certificate, part: Part) -> dict[str, Any]:
    """The figures of the paper's tables, all computed from the certified Q."""
    assert isinstance(certificate.posterior, Exact | Sparse)
    mean, variance = predicted(certificate, part)
    truth = part.scaled_test[1]
    loss: Loss = certificate.loss
    assert isinstance(loss, Band | Exponential)

    def risk(of: Loss) -> float:
        return float(np.mean(of.expectation(truth, mean, variance)))

    return {
        **bounds(certificate),
        "train": certificate.risk,
        "test": risk(Band(loss.epsilon)),
        "test_own": risk(loss),
        "loss": loss.name,
        "MSE": float(np.mean((truth - mean) ** 2)),
        "KL_N": certificate.kl / certificate.data.rows,
        "noise": certificate.posterior.noise,
    }


HEADER = tuple(field.name for field in fields(Score))


def save(path: Path, scores: Sequence[Score]) -> None:
    """All scores as CSV."""
    with replacing(path) as file:
        sheet = csv.DictWriter(file, HEADER)
        sheet.writeheader()
        sheet.writerows(asdict(score) for score in scores)


def load(path: Path) -> list[Score]:
    """The scores that `save` wrote; an empty list if there is no file.

    Files of before the column ``loss`` hold band losses.
    """
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "str": str,
        "bool": lambda text: text == "True",
    }
    with path.open(newline="", encoding="utf-8") as file:
        rows = [{"loss": "band", "test_own": row["test"], **row} for row in csv.DictReader(file)]
    return [Score(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Score)}) for row in rows]
