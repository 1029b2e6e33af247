"""All attacks on certificates that are known, of the old kinds and the new: what the check catches, and what it names.

Each attack is a row of a table of docs/how_to/certificates.md.  The attacker edits the record and seals it again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpbounds.kernels import SquaredExponential
from gpbounds.losses import Band, Sign, Squared
from gpbounds.pacbayes import (
    Certificate,
    Charge,
    CoverageCertificate,
    DeclaredMean,
    HeldOutCertificate,
    HyperGrid,
    Scaling,
    Sparse,
    Split,
    Updated,
    coverage_rank,
    holdout_bound,
)
from gpbounds.pacbayes.certificate import statement
from gpbounds.pacbayes.certificate.sealed import seal
from gpbounds.records import to_json

# The honest certificates: one of each kind.

RNG = np.random.default_rng(5)
N, DELTA = 120, 0.05
X = RNG.uniform(-2.0, 2.0, (N, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
LABELS = np.where(Y > 0.0, "yes", "no")
CLASSES = ("no", "yes")
SPLIT = Split("random", 0.5, seed=3)
CERTIFIED = ~SPLIT.prior(N)
Z = np.linspace(-2.0, 2.0, 6)[:, None]
KERNEL = SquaredExponential(1.0, 1.0)  # ln θ = 0 is a member of the grids
GRID = HyperGrid.shared(-3.0, 3.0, 60)
POINT = HyperGrid.shared(0.0, 0.0, 0)
THREE = (Charge("forms of certificate", 3),)
UNITS = Scaling("disjoint split", 0.0, 0.8)
WRONG = np.sin(2.0 * X[:, 0]) + 0.5 * (np.arange(N) % 7 == 0)  # a model with some mistakes


def law(rows: np.ndarray, targets: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and lower factor of v given rows, u = Lv: a Gaussian update in M dimensions."""
    L = np.linalg.cholesky(KERNEL(Z) + 1e-8 * np.eye(len(Z)))
    A = np.linalg.solve(L, KERNEL(Z, rows))
    cov = np.linalg.inv(np.eye(len(Z)) + A @ A.T / noise)
    return cov @ A @ targets / noise, np.linalg.cholesky((cov + cov.T) / 2.0)


def updated(targets: np.ndarray, prior_rows: np.ndarray | None = None) -> Updated:
    """A law of the prior's rows, moved a little by the certified ones."""
    mask = ~CERTIFIED if prior_rows is None else prior_rows
    mean, factor = law(X[mask], targets[mask], 0.1)
    step = 0.05 * np.linalg.solve(factor, law(X, targets, 0.1)[0] - mean)
    return Updated(Z, mean, factor, step, 0.98 * np.eye(len(Z)), jitter=1e-8)


def issued(posterior: Any, grid: HyperGrid = POINT, y: Any = Y, **options: Any) -> Certificate:
    options = {"loss": Band(0.5), "delta": DELTA, "charges": THREE, **options}
    return Certificate.issue(X, y, posterior, KERNEL, grid=grid, **options)


@cache
def honest(kind: str) -> Any:
    """The certificate of a kind, as an honest signer issues it."""
    about = {"predictor": "a sine", "delta": DELTA, "split": SPLIT, "charges": THREE}
    signs = np.where(LABELS == "yes", 1.0, -1.0)
    makers: dict[str, Callable[[], Any]] = {
        "grid": lambda: issued(Sparse(Z, 0.1, jitter=1e-8), GRID, outputs=UNITS),
        "data prior": lambda: issued(updated(Y), split=SPLIT),
        "mean": lambda: issued(updated(Y), split=SPLIT, predictor="mean"),
        "vote": lambda: issued(
            updated(signs), y=LABELS, split=SPLIT, loss=Sign(), classes=CLASSES, predictor="mean", charges=()
        ),
        "held-out": lambda: HeldOutCertificate.issue(X, Y, WRONG[CERTIFIED], loss=Band(0.5), outputs=UNITS, **about),
        "bounded": lambda: HeldOutCertificate.issue(X, Y, WRONG[CERTIFIED], loss=Squared(0.5), **about),
        "labels": lambda: HeldOutCertificate.issue(
            X, LABELS, np.where(WRONG > 0.0, "yes", "no")[CERTIFIED], loss=None, classes=CLASSES, **about
        ),
        "coverage": lambda: CoverageCertificate.issue(
            X, Y, WRONG[CERTIFIED], np.full(CERTIFIED.sum(), 0.2), level=0.8, **about
        ),
    }
    return makers[kind]()


GIBBS = ("grid", "data prior", "mean", "vote")
COUNTED = ("held-out", "bounded", "labels")
RECORDED = (*COUNTED, "coverage")
ALL = (*GIBBS, *RECORDED)
HAS_SPLIT = ALL[1:]
HAS_LOSS = ("grid", "data prior", "mean", "held-out", "bounded")


def rows_of(kind: str) -> tuple[np.ndarray, np.ndarray]:
    return X, LABELS if kind in ("vote", "labels") else Y


@pytest.mark.parametrize("kind", ALL)
def test_what_an_honest_signer_issues_is_confirmed_and_worth_something(kind: str) -> None:
    certificate = honest(kind)
    report = certificate.check(*rows_of(kind))
    assert report.confirmed, str(report)
    assert certificate.bound < 1.0
    assert certificate.check(*rows_of(kind), rigorous=True).confirmed


# Attacks that the check catches.


@dataclass(frozen=True)
class Caught:
    """An attack on certificates of some kinds, and the lines of which one at least must fail.

    ``forge`` returns the changed attributes; ``rows`` changes the rows instead; without ``lines`` the file is refused.
    """

    kinds: tuple[str, ...]
    forge: Callable[[Any], dict[str, Any]]
    lines: tuple[str, ...] = ()


def least(certificate: Any, **changes: Any) -> float:
    """The bound that an issuer of these numbers would state."""
    return issue_again(replace(certificate, **changes)).bound


def issue_again(certificate: Any) -> Any:
    """The record with the penalties and the bound that belong to its other numbers."""
    if isinstance(certificate, Certificate):
        paid = replace(
            certificate,
            log_count=statement.log_count(certificate.count),
            log_xi=statement.log_xi(certificate.rows, certificate.delta),
        )
        return replace(paid, bound=paid.least_bound(paid.risk, paid.kl, paid.tandem))
    if isinstance(certificate, CoverageCertificate):
        y = rows_of("coverage")[1][CERTIFIED]
        rank = coverage_rank(certificate.rows, level=certificate.level, delta=certificate.share)
        scores = np.sort(np.abs(y - certificate.predictions) / certificate.spread)
        return replace(certificate, rank=rank, factor=float(scores[rank - 1]))
    return replace(certificate, bound=certificate._least(certificate.mistakes, certificate.risk))


def other_split(split: Split) -> Callable[[Any], dict[str, Any]]:
    return lambda certificate: {"split": split}


def lower_risk(certificate: Any) -> dict[str, Any]:
    """A smaller R_S, or one mistake fewer, and the bound that would follow."""
    if getattr(certificate, "mistakes", None) is not None:
        fewer = certificate.mistakes - 1
        changes: dict[str, Any] = {"mistakes": fewer, "risk": fewer / certificate.rows}
    else:
        changes = {"risk": 0.9 * certificate.risk}
    return {**changes, "bound": least(certificate, **changes)}


def moved(name: str) -> Callable[[Any], dict[str, Any]]:
    """Another array in the record of Q."""

    def forge(certificate: Any) -> dict[str, Any]:
        values = getattr(certificate.posterior, name)
        other = 0.8 * values if name.endswith("factor") else values + 0.1
        return {"posterior": replace(certificate.posterior, **{name: other})}

    return forge


def mended(certificate: Any) -> dict[str, Any]:
    """One wrong prediction replaced by the truth."""
    y = rows_of("labels" if certificate.classes else "held-out")[1][CERTIFIED]
    truth = certificate.encode(y) if certificate.classes else y
    values = np.array(certificate.predictions)
    place = int(np.argmax(np.abs(truth - values)))
    values[place] = truth[place]
    return {"predictions": values}


def whole_delta(certificate: Any) -> dict[str, Any]:
    """The list stays, the bound is that of all of δ; a coverage certificate also takes the rank of all of δ."""
    whole = issue_again(replace(certificate, charges=()))
    if isinstance(certificate, CoverageCertificate):
        return {"rank": whole.rank, "factor": whole.factor}
    return {"bound": whole.bound}


CAUGHT: dict[str, Caught] = {
    "a number changed without a new seal": Caught(ALL, lambda c: {"delta": 1.01 * c.delta}, ("seal",)),
    "rows of another data set": Caught(ALL, lambda c: {"data": replace(c.data, sha256="0" * 64)}, ("data",)),
    "a smaller KL": Caught(GIBBS, lambda c: {"kl": 0.5 * c.kl, "bound": least(c, kl=0.5 * c.kl)}, ("kl",)),
    "a smaller mean loss, or fewer mistakes": Caught((*GIBBS, *COUNTED), lower_risk, ("risk",)),
    "a smaller tandem risk": Caught(
        ("mean", "vote"), lambda c: {"tandem": 0.5 * c.tandem, "bound": least(c, tandem=0.5 * c.tandem)}, ("tandem",)
    ),
    "a smaller bound": Caught((*GIBBS, *COUNTED), lambda c: {"bound": math.nextafter(c.bound, 0.0)}, ("bound",)),
    "a smaller δ": Caught(ALL, lambda c: {"delta": 0.1 * c.delta}, ("xi", "bound", "rank")),
    "the share of δ ignored": Caught(("grid", "data prior", "mean", *RECORDED), whole_delta, ("bound", "rank")),
    "a list of choices left out": Caught(
        ("grid", "data prior", "mean"), lambda c: {"charges": (), "bound": least(c, charges=())}, ("choices",)
    ),
    "one bound of the mean prediction unpaid": Caught(
        ("mean", "vote"), lambda c: {"log_count": statement.log_count(c.count // 2)}, ("choices",)
    ),
    "the bound on drawn predictions passed off as one on the mean prediction": Caught(
        ("data prior",), lambda c: {"tandem": honest("mean").tandem}, ("choices", "bound")
    ),
    "the bound on the mean prediction passed off as one on drawn predictions": Caught(
        ("mean", "vote"), lambda c: {"tandem": None, "bound": 0.5 * c.bound}, ("choices", "bound")
    ),
    "another ε": Caught(
        HAS_LOSS, lambda c: {"loss": replace(c.loss, epsilon=0.5 * c.loss.epsilon)}, ("risk", "tandem")
    ),
    "another scale of the outputs": Caught(
        ("grid", "held-out"), lambda c: {"outputs": replace(c.outputs, scale=0.4)}, ("risk",)
    ),
    "another member of the grid": Caught(("grid",), lambda c: {"indices": (c.indices[0] + 1, c.indices[1])}, ("grid",)),
    "a coarser grid": Caught(("grid",), lambda c: {"grid": HyperGrid.shared(-3.0, 3.0, 6)}, ("grid", "choices")),
    "other hyperparameters": Caught(GIBBS, lambda c: {"kernel": SquaredExponential(1.0, 1.1)}, ("grid",)),
    "another Z": Caught(GIBBS, moved("Z"), ("risk", "kl")),
    "another mean of Q": Caught(GIBBS[1:], moved("mean"), ("kl",)),
    "another covariance of Q": Caught(GIBBS[1:], moved("factor"), ("kl",)),
    "another mean of the prior's law": Caught(GIBBS[1:], moved("prior_mean"), ("risk",)),
    "another covariance of the prior's law": Caught(GIBBS[1:], moved("prior_factor"), ("risk",)),
    "a larger jitter": Caught(GIBBS, lambda c: {"posterior": replace(c.posterior, jitter=0.1)}, ("risk", "kl")),
    "another seed of the split": Caught(HAS_SPLIT, other_split(Split("random", 0.5, seed=4)), ("risk", "bound")),
    "another order of the split": Caught(HAS_SPLIT, other_split(Split("as given", 0.5)), ("risk", "bound")),
    "another share of the split": Caught(GIBBS[1:], other_split(Split("random", 0.3, seed=3)), ("risk", "xi")),
    "swapped classes": Caught(("vote", "labels"), lambda c: {"classes": CLASSES[::-1]}, ("data",)),
    "a changed prediction": Caught(COUNTED, mended, ("risk",)),
    "a changed spread": Caught(("coverage",), lambda c: {"spread": 0.5 * c.spread}, ("bound",)),
    "a lower rank": Caught(
        ("coverage",),
        lambda c: {"rank": c.rank - 1, "factor": replace(c, rank=c.rank - 1)._factor(Y[CERTIFIED])},
        ("rank",),
    ),
    "a smaller factor": Caught(("coverage",), lambda c: {"factor": 0.99 * c.factor}, ("bound",)),
    "a higher level": Caught(("coverage",), lambda c: {"level": 0.9}, ("rank",)),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, each in CAUGHT.items() for kind in each.kinds])
def test_an_attack_is_caught_by_the_mathematics(name: str, kind: str) -> None:
    attack, certificate = CAUGHT[name], honest(kind)
    forged = replace(certificate, **attack.forge(certificate))
    forged = forged if attack.lines == ("seal",) else forged.sealed()
    report = forged.check(*rows_of(kind))
    assert not report.confirmed
    assert set(attack.lines) & set(report.failed), str(report)


CHANGED_ROWS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "a changed row": lambda X, y: (np.where(np.arange(N)[:, None] == 7, np.nextafter(X, 9.0), X), y),
    "rows in another order": lambda X, y: (X[::-1], y[::-1]),
    "the prior's rows left out": lambda X, y: (X[CERTIFIED], y[CERTIFIED]),
}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", CHANGED_ROWS)
def test_other_rows_are_noticed(name: str, kind: str) -> None:
    assert "data" in honest(kind).check(*CHANGED_ROWS[name](*rows_of(kind))).failed


# Attacks that the reader of the file refuses.


def file_of(which: str, /, **changes: Any) -> dict[str, Any]:
    record = {**honest(which).to_dict(), **changes}
    return {**record, "seal": seal(record)}


REFUSED: dict[str, Callable[[], dict[str, Any]]] = {
    "a file under the name of another kind": lambda: file_of("held-out", kind="coverage"),
    "predictions for other rows than those of the split": lambda: file_of("held-out", split=None),
    "a scaling from the same rows under the word rigorous": lambda: file_of(
        "grid", outputs={**honest("grid").to_dict()["outputs"], "origin": "same data"}
    ),
    "a spread of 0": lambda: file_of("coverage", spread=[0.0] * int(CERTIFIED.sum())),
    "more mistakes than rows": lambda: file_of("held-out", mistakes=N),
    "a loss without a tandem risk": lambda: file_of("mean", loss={"name": "squared", "epsilon": 0.5}),
    "a singular covariance of the prior's law": lambda: file_of(
        "data prior",
        posterior={**honest("data prior").to_dict()["posterior"], "prior_factor": [[0.0] * (i + 1) for i in range(6)]},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_makes_no_sense_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(to_json(REFUSED[name](), ascii=False), encoding="utf-8")
    with pytest.raises(ValueError, match="expected"):
        Certificate.load(path)


# Attacks that no check can see: the report confirms the numbers and names the declaration that is false.


@dataclass(frozen=True)
class Declared:
    """An attack, compared with the honest certificate of a kind; the report has the ``words`` in the line ``line``."""

    kind: str
    forge: Callable[[], tuple[Any, Any, Any]]
    line: str
    words: str
    gains: bool = True


def held_out(predictions: Any, *, X: Any = X, y: Any = Y, split: Split | None = SPLIT, **options: Any) -> Any:
    options = {"loss": Band(0.5), "delta": DELTA, "charges": THREE, "predictor": "a model", **options}
    return HeldOutCertificate.issue(X, y, predictions, split=split, **options), X, y


def best_of_seeds() -> tuple[Any, Any, Any]:
    tried = (Split("random", 0.5, seed=seed) for seed in range(50))
    made = (held_out(WRONG[~split.prior(N)], split=split, outputs=UNITS) for split in tried)
    return min(made, key=lambda each: float(each[0].bound))


def sorted_rows() -> tuple[Any, Any, Any]:
    order = np.argsort(-np.abs(Y - WRONG), kind="stable")
    half = N - Split("as given").certified(N)
    return held_out(WRONG[order][half:], X=X[order], y=Y[order], split=Split("as given"), outputs=UNITS)


def same_rows_scaling(digits: int) -> tuple[Any, Any, Any]:
    """Constants from the certified rows, declared as those of other rows."""
    y = Y[CERTIFIED]
    outputs = Scaling("disjoint split", round(float(y.mean()), digits), round(float(y.std()), digits))
    return held_out(WRONG[CERTIFIED], outputs=outputs)


def repeated_rows() -> tuple[Any, Any, Any]:
    """Every row ten times: as if there were ten times as many."""
    rows = np.repeat(np.flatnonzero(CERTIFIED), 10)
    return held_out(WRONG[rows], X=X[rows], y=Y[rows], split=None, outputs=UNITS)


def chosen_model() -> tuple[Any, Any, Any]:
    """The best of 300 models by their mistakes on the certified rows."""
    rng = np.random.default_rng(0)
    made = (held_out(np.sin(2.0 * X[CERTIFIED, 0]) + shift) for shift in 0.5 * rng.standard_normal(300))
    return min(made, key=lambda each: float(each[0].bound))


def intervals(spread: Any) -> tuple[Any, Any, Any]:
    made = CoverageCertificate.issue(
        *(X, Y, WRONG[CERTIFIED], spread),
        **{"predictor": "a sine", "delta": DELTA, "split": SPLIT, "charges": THREE, "level": 0.8},
    )
    return made, X, Y


def own_law() -> tuple[Any, Any, Any]:
    """The law of the prior made from the certified rows: Q is the prior, and KL = 0."""
    mean, factor = law(X[CERTIFIED], Y[CERTIFIED], 0.01)
    posterior = Updated(Z, mean, factor, np.zeros(len(Z)), np.eye(len(Z)), jitter=1e-8)
    return issued(posterior, split=SPLIT), X, Y


def on_grid(y: Any = Y, X: Any = X, **options: Any) -> tuple[Any, Any, Any]:
    options = {"loss": Band(0.5), "delta": DELTA, "charges": THREE, "outputs": UNITS, "grid": GRID, **options}
    return Certificate.issue(X, y, Sparse(Z, 0.1, jitter=1e-8), KERNEL, **options), X, y


def of_seeds() -> tuple[Any, Any, Any]:
    tried = (Split("random", 0.5, seed=seed) for seed in range(20))
    made = (issued(updated(Y, split.prior(N)), split=split) for split in tried)
    return min(made, key=lambda each: float(each.bound)), X, Y


def own_mean() -> tuple[Any, Any, Any]:
    """A mean of the prior by least squares on the certified rows, declared as one of other rows."""
    slope, intercept = np.polyfit(X[:, 0], Y / 0.8, 1)
    return on_grid(mean=DeclaredMean("disjoint split", intercept, (slope,)))


DECLARED: dict[str, tuple[Declared, ...]] = {
    "a model that has seen the certified rows": (
        Declared("held-out", lambda: held_out(Y[CERTIFIED]), "model", "was made without the certified rows"),
    ),
    "predictions that are not the model's": (
        Declared("held-out", lambda: held_out(0.9 * Y[CERTIFIED]), "model", "the recorded predictions are its own"),
    ),
    "a spread that the targets have shaped": (
        Declared("coverage", lambda: intervals(np.abs(Y - WRONG)[CERTIFIED] + 1e-3), "model", "made without the"),
    ),
    "the best of many models": (Declared("held-out", chosen_model, "model", "was made without the certified rows"),),
    "a law of the prior from the certified rows": (Declared("data prior", own_law, "prior", "came from the prior's"),),
    "hyperparameters fitted to the certified rows": (
        Declared(
            "grid",
            lambda: on_grid(grid=POINT),
            "in advance",
            "with one value of variance and lengthscale, which no fit to the certified rows may have chosen",
        ),
    ),
    "a mean of the prior fitted to the certified rows": (
        Declared("grid", own_mean, "mean", "fitted to data disjoint from these", gains=False),
        Declared("grid", own_mean, "doubt", "as if fitted to these very rows", gains=False),
    ),
    "the best of many seeds": (
        Declared("held-out", best_of_seeds, "split", "no other split was tried"),
        Declared("data prior", of_seeds, "split", "no other split was tried"),
    ),
    "sorted rows": (
        Declared("held-out", sorted_rows, "split", "The order of the rows and the split were fixed before"),
    ),
    "a scaling from the certified rows": (
        Declared("held-out", lambda: same_rows_scaling(17), "doubt", "as if scaled by these very data", gains=False),
        Declared(
            "grid",
            lambda: on_grid(outputs=Scaling("disjoint split", float(Y.mean()), float(Y.std()))),
            "doubt",
            "as if scaled by these very data",
            gains=False,
        ),
    ),
    "a scaling from the certified rows, rounded": (
        Declared("held-out", lambda: same_rows_scaling(3), "scaling", "constants from data disjoint", gains=False),
        Declared(
            "grid",
            lambda: on_grid(outputs=Scaling("disjoint split", round(float(Y.mean()), 3), round(float(Y.std()), 3))),
            "scaling",
            "constants from data disjoint from these",
            gains=False,
        ),
    ),
    "rows that are not independent": (
        Declared("held-out", repeated_rows, "draws", "independent draws from one law"),
        Declared(
            "grid",
            lambda: on_grid(np.repeat(Y, 10), np.repeat(X, 10, axis=0)),
            "draws",
            "independent draws from one law",
        ),
    ),
    "an ε chosen afterwards": (
        Declared("held-out", lambda: held_out(WRONG[CERTIFIED], loss=Band(1.2)), "in advance", "the loss and its ε"),
        Declared("grid", lambda: on_grid(loss=Band(1.2)), "in advance", "the loss and its ε"),
        Declared(
            "data prior",
            lambda: (issued(updated(Y), split=SPLIT, loss=Band(1.2)), X, Y),
            "in advance",
            "the loss and its ε",
        ),
    ),
    "a δ chosen afterwards": (
        Declared("held-out", lambda: held_out(WRONG[CERTIFIED], delta=0.5, outputs=UNITS), "in advance", "δ"),
        Declared("grid", lambda: on_grid(delta=0.5), "in advance", "δ"),
    ),
    "other certificates kept back": (
        Declared("held-out", lambda: held_out(WRONG[CERTIFIED], charges=(), outputs=UNITS), "in advance", "δ."),
        Declared("grid", lambda: on_grid(charges=()), "in advance", "the grid."),
    ),
}


def reach(certificate: Any) -> float:
    """The bound, or the mean half width of intervals."""
    covers = isinstance(certificate, CoverageCertificate)
    return certificate.factor * float(certificate.spread.mean()) if covers else certificate.bound


@pytest.mark.parametrize(("name", "place"), [(name, i) for name, each in DECLARED.items() for i in range(len(each))])
def test_what_no_check_can_see_is_a_declaration(name: str, place: int) -> None:
    attack = DECLARED[name][place]
    forged, X, y = attack.forge()
    if attack.gains:
        assert reach(forged) < reach(honest(attack.kind))
    report = forged.check(X, y)
    assert report.confirmed, str(report)
    declared = [line.text for line in report.lines if line.name == attack.line and line.state == "declared"]
    assert any(attack.words in text for text in declared), declared


def test_a_receiver_with_the_model_needs_no_declaration_about_its_predictions() -> None:
    forged, _, _ = held_out(0.9 * Y[CERTIFIED])
    assert forged.check(X, Y, predictions=WRONG[CERTIFIED]).failed == ("predicted",)
    assert forged.check(X, Y, predictions=0.9 * Y[CERTIFIED]).confirmed
    shaped, _, _ = intervals(np.abs(Y - WRONG)[CERTIFIED] + 1e-3)
    own = {"predictions": WRONG[CERTIFIED], "spread": np.full(int(CERTIFIED.sum()), 0.2)}
    assert shaped.check(X, Y, **own).failed == ("spread",)


def test_a_scaling_from_a_list_is_paid_for_by_predictions_too() -> None:
    charged = Scaling("charged", 0.0, 0.8, count=50)
    made, _, _ = held_out(WRONG[CERTIFIED], outputs=charged, charges=())
    k, n = made.mistakes, made.rows
    assert made.bound == float(holdout_bound(k, n, delta=statement.share_of_delta(DELTA, 50), rigor="sharp"))
    unpaid = replace(made, bound=float(holdout_bound(k, n, delta=DELTA, rigor="sharp"))).sealed()
    assert unpaid.check(X, Y).failed == ("bound",)


# The page.


def test_the_page_has_a_row_for_every_attack() -> None:
    page = (Path(__file__).parent.parent / "docs" / "how_to" / "certificates.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", page.partition("## All known attacks")[2], re.MULTILINE)
    listed = {attack: (kinds, catches) for attack, kinds, catches in rows if attack not in ("attack", "---")}
    assert set(listed) == {*CAUGHT, *CHANGED_ROWS, *REFUSED, *DECLARED}
    words = {ALL: "all", HAS_SPLIT: "all with a split"}
    for name, caught in CAUGHT.items():
        assert listed[name][0] == words.get(caught.kinds, ", ".join(caught.kinds)), name
        lines = set(re.findall("`(.+?)`", listed[name][1]))
        assert lines == set(caught.lines), name
    for name, attacks in DECLARED.items():
        kinds, catches = listed[name]
        assert kinds == ", ".join(dict.fromkeys(each.kind for each in attacks)), name
        assert catches.startswith("declared: ")
        assert all(f"`{each.line}`" in catches for each in attacks), name
