"""Train `fitting.PACGP` or `fitting.SparsePACGP` by the bound on the rows of a table, and certify it."""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.terms import DECLARED, accuracy, figure, scalings, terms, tolerance
from fitting.study.words import describe_kernel
from gpbounds.arrays import Float
from gpbounds.cli.options import UsageError
from gpbounds.cli.rows import Table
from gpbounds.kernels import Kernel, Stationary
from gpbounds.kernels.families import SQUARED_EXPONENTIAL, Family
from gpbounds.kernels.plain import hyperparameters
from gpbounds.pacbayes import Certificate, HyperGrid
from gpbounds.rigor import decimal
from gpbounds.texts import short, wrapped
from gpbounds.texts import table as aligned
from gpbounds.validation import count, non_negative, scalar

FULL_ROWS = 1500
"""Default limit for the exact posterior; the cost of each step is the cube of the number of rows."""

FARTHEST = 100.0
"""Largest |ln| of a scale at the start, so that its powers are doubles."""

GRID = (-6.0, 6.0, 1200)
"""Default edges of the grid, and its number of steps, in the log of each hyperparameter."""

INDUCING = 100
"""Default number of inducing points of a sparse model."""

NO_INDUCING = "--inducing is an option of --posterior fitc, vfe or free; the full posterior has no inducing points"


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of training.

    Attributes
    ----------
    certificate : Certificate
    mean, std : arrays (n,)
        Latent predictions at the rows ``shown``, in the units of the raw target.
    how : str
        One sentence about the training.
    notes : tuple of str
        Messages of the training.
    models : tuple of estimators
        The model of each ε, fitted.
    others : tuple of Certificate
        For the other values of ε; all hold together.
    interrupted : bool
        Whether Ctrl-C ended the training; the certificates are those of the best point until then.
    """

    certificate: Certificate
    mean: Float
    std: Float
    how: str
    notes: tuple[str, ...]
    models: tuple[Any, ...]
    others: tuple[Certificate, ...] = ()
    interrupted: bool = False

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """One for each ε."""
        return (self.certificate, *self.others)


def train(
    rows: Table,
    *,
    loss: str,
    epsilon: Sequence[float],
    delta: float,
    grid: tuple[float, float, int],
    family: Family = SQUARED_EXPONENTIAL,
    shared: bool = False,
    posterior: str | None = None,
    inducing: int | None = None,
    objective: str = "kl",
    iterations: int = 1000,
    tol: float = 0.001,
    seed: int = 0,
    progress: bool = False,
) -> Trained:
    """Train on ``rows`` and certify each ``epsilon``, by P-44's procedure; ``posterior`` None chooses by N.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as the estimators; for a number of inducing points together with the full posterior.
    """
    posterior = posterior or ("full" if rows.N <= FULL_ROWS else "fitc")
    if posterior == "full" and inducing is not None:
        raise UsageError(NO_INDUCING)
    kernel, axes = start(rows, family, grid, shared)
    # The command line is an application above both packages: besides this file only hyperparameters.py imports
    # fitting, and a test (tests/test_package.py) keeps it so.
    from sklearn.exceptions import ConvergenceWarning

    from fitting import estimators

    settings: dict[str, Any] = {
        "epsilon": list(epsilon) if len(epsilon) > 1 else epsilon[0],
        "delta": delta,
        "loss": loss,
        "relaxation": objective,
        "grid": axes,
        "kernel": kernel,
        "start": "evidence" if isinstance(kernel, Stationary) else "scale",  # with "evidence" only the family counts
        "mean": "zero" if rows.mean is None else rows.mean,
        "scaling": "as given" if rows.outputs.origin == "as given" else (rows.inputs, rows.outputs),
        "max_iter": count("--iterations", iterations),
        "tol": scalar(non_negative, "--tol", tol),
        "random_state": seed,
        "progress": progress,
    }
    if posterior == "full":
        model: Any = estimators.PACGP(**settings)
    else:
        M = min(INDUCING, rows.N) if inducing is None else count("--inducing", inducing)
        model = estimators.SparsePACGP(n_inducing=M, posterior=posterior, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the notes contain the same message
        model.fit(*rows.data)
    mean, std = model.predict(rows.shown[0], return_std=True)
    certificate: Certificate = model.certificate_
    how = for_the_shell(f"{type(model).__name__}, objective {objective}. {model.stop_reason_}")
    texts = (for_the_shell(remark.text) for remark in model.remarks_ if "limit" not in remark.kind)
    remarks = tuple(dict.fromkeys(text for text in texts if text not in how))
    notes = (*_at_the_edge(certificate), *remarks)
    interrupted = any(run.status == "interrupted" for run in model.runs_)
    models = tuple(each.set_params(progress=False) for each in model.models())
    if rows.encoding is not None:  # with which predict reads the same columns
        for each in models:
            each.encoding_ = rows.encoding
    return Trained(certificate, mean, std, how, notes, models, model.certificates_[1:], interrupted)


def edges(given: Sequence[float] | None) -> tuple[float, float, int]:
    """The option ``--grid``, or `GRID`; its third number is whole."""
    low, high, steps = given or GRID
    return low, high, int(steps)


def start(rows: Table, family: Family, edges: tuple[float, float, int], shared: bool) -> tuple[Kernel, HyperGrid]:
    """Initial kernel, clipped to the grid: mean square of y, √D standard deviations of the inputs; and the grid."""
    with np.errstate(over="ignore"):  # values that overflow start at the edge of the grid
        square, widths = rows.scales
    widths = math.sqrt(rows.D) * np.where(widths > 0.0, widths, 1.0)
    low, high, steps = edges
    inside = np.clip(np.log(np.append(square or 1.0, widths)), max(low, -FARTHEST), min(high, FARTHEST))
    kernel = family.at(float(np.exp(inside[0])), np.exp(inside[1:]), shared)
    grid = HyperGrid(low, high, steps, tuple(hyperparameters(kernel)))
    return kernel.with_log_parameters(np.clip(kernel.log_parameters, low, high)), grid


def _at_the_edge(certificate: Certificate) -> tuple[str, ...]:
    """A note on hyperparameters at the edge of the grid."""
    places = zip(certificate.grid.names, certificate.indices, certificate.grid.steps, strict=True)
    edges = [f"{name} ({'lower' if i == 0 else 'upper'})" for name, i, g in places if g and i in (0, g)]
    return (f"Training ended at the edge of the grid for: {', '.join(edges)}.",) if edges else ()


def for_the_shell(text: str) -> str:
    """``text`` on one line, with the name of the option instead of the argument."""
    return " ".join(text.split()).replace("max_iter", "--iterations").replace("tol is", "--tol is")


# The result as text, as JSON and as a figure.


def report(table: Table, trained: Trained) -> str:
    """The statement as text, and its terms as a table; several values of ε as a table before the terms of the first."""
    certificate = trained.certificate
    lines = [
        wrapped(f"Data: {table.name}, N = {table.N}, D = {table.D}. {' '.join(table.notes)}".rstrip()),
        *(["", _by_accuracy(trained), "", f"In detail, for E = {accuracy(certificate):g}:"] if trained.others else []),
        wrapped(f"Prior: {describe_kernel(certificate.kernel)}, on the grid. Q: {certificate.posterior.describe()}."),
        wrapped(trained.how),
        "",
        wrapped(certificate.statement),
        "",
        aligned(("term", "value", "from"), terms(certificate)),
        "",
        wrapped(DECLARED),
        *(wrapped(f"{name} were {text}.") for name, text in scalings(certificate)),
        *([] if certificate.mean is None else [wrapped(certificate.mean.describe())]),
        *(wrapped(f"Note: {note}") for note in trained.notes),
    ]
    if certificate.bound > _VACUOUS_FROM:
        lines.append(wrapped(_advice(table, certificate)))
    return "\n".join(lines)


_VACUOUS_FROM = 0.9
_VACUOUS = (
    "Note: The bound is almost vacuous. These changes lower it: more rows, a larger --epsilon, --kernel-lengthscale "
    "shared, a --grid with fewer steps or other edges, units closer to 1 (--scaling split)."
)
SMALL = 0.2
"""An ε below so many standard deviations of the target is called small."""
_SMALL_EPSILON = (
    " Here E is {share:.2g} standard deviations of the target, and few predictions are so accurate. --scaling split "
    "counts E in standard deviations; without --epsilon it certifies several values, fixed in advance, and prints a "
    "table of bound against E. You have now seen one certificate of these rows: this one and the next hold together "
    "with probability {both:g} %."
)


def _advice(table: Table, certificate: Certificate) -> str:
    """What lowers a vacuous bound, and whether ε is small."""
    width, _ = tolerance(certificate, table.shown[1])
    spread = float(np.std(table.shown[1]))
    if np.ndim(width) or spread == 0.0 or not float(width) < SMALL * spread:
        return _VACUOUS
    both = 100.0 * max(0.0, 1.0 - 2.0 * certificate.delta)
    return _VACUOUS + _SMALL_EPSILON.format(share=float(width) / spread, both=both)


def _by_accuracy(trained: Trained) -> str:
    """The table of bound against ε, for all certificates of one training."""
    unit = float(trained.certificate.outputs.scale)
    rows = []
    for each in trained.certificates:
        epsilon = accuracy(each)
        raw = "-" if each.loss.name in ("relative", "interval") else short(epsilon * unit)
        bound = decimal(each.bound, True, 4)
        rows.append((f"{epsilon:g}", raw, f"{each.kl:.4g}", f"{each.risk:.4f}", bound))
    head = (
        f"All {len(rows)} bounds hold together with probability {100 * (1 - trained.certificate.delta):g} %; each pays "
        f"ln({len(rows)}) for the choice (P-47), so you may choose one of them now:"
    )
    return f"{wrapped(head)}\n{aligned(('E', 'in raw units', 'KL', 'R_S', 'bound'), rows)}"


@dataclass(frozen=True)
class Written:
    """The files that the command wrote, and what can be done with them.

    Attributes
    ----------
    pairs : sequence of (certificate, model)
        A pair of files for each ε.
    picture : Path
    own_rows : Path or None
        The certified rows, if they are not those of the file ``table``.
    table : Path
        The file that the command read.
    target : str or None
        The option ``--target``.
    """

    pairs: Sequence[tuple[Path, Path]]
    picture: Path
    own_rows: Path | None
    table: Path
    target: str | None = None

    def check(self, i: int = 0) -> str:
        """The command that checks the certificate of the ``i``-th ε."""
        data = self.own_rows or self.table
        return shlex.join(("gpbounds", "certify", "check", str(self.pairs[i][0]), "--data", str(data)))

    def predict(self, i: int = 0) -> str:
        """The command that predicts with the model of the ``i``-th ε."""
        return f"{shlex.join(('gpbounds', 'predict', str(self.pairs[i][1])))} NEW.csv --out predictions.csv"

    def report(self, trained: Trained) -> str:
        """The names of the files, and the commands for a model: of several, the first one with a bound below 1/2."""
        i = next((k for k, each in enumerate(trained.certificates) if each.bound < 0.5), len(self.pairs) - 1)
        others = [str(path) for path in (self.picture, self.own_rows) if path is not None]
        lines = []
        if trained.others:
            rows = [
                (f"{accuracy(each):g}", *map(str, pair))
                for each, pair in zip(trained.certificates, self.pairs, strict=True)
            ]
            lines += ["Saved for each E:", aligned(("E", "certificate", "model"), rows), f"and {', '.join(others)}"]
        else:
            lines.append(f"Saved {', '.join([*map(str, self.pairs[0]), *others])}")
        if self.own_rows is not None:
            lines.append(f"{self.own_rows} holds the certified rows, with the target in the last column.")
        which = f", here with E = {accuracy(trained.certificates[i]):g}" if trained.others else ""
        lines += ["", *self._held_out(trained), f"Predict for new rows{which}:\n  {self.predict(i)}"]
        lines.append(f"Check it:\n  {self.check(i)}")
        return "\n".join(lines)

    def _held_out(self, trained: Trained) -> list[str]:
        """A note on bounds from rows held out, for losses in the units of the target."""
        certificate = trained.certificate
        if certificate.loss.name not in ("band", "squared", "exponential"):
            return []
        raw = short(accuracy(certificate) * float(certificate.outputs.scale))
        table = shlex.join([str(self.table), *(() if self.target is None else ("--target", self.target))])
        folder = shlex.quote(str(self.picture.parent / "held_out"))
        return [
            wrapped(
                "This bound comes from the rows of the training alone.  If you can spare some, a bound from rows held "
                "out is often lower:"
            ),
            f"  gpbounds train {table} --out {folder}",
            f"  gpbounds audit {table} --model {folder}/model.npz --certificate {raw}",
        ]


def record(table: Table, trained: Trained, written: Written) -> dict[str, Any]:
    """The content of `report` and of ``written``, ready for JSON."""
    certificate = trained.certificate
    files = [{"certificate": str(stated), "model": str(model)} for stated, model in written.pairs]
    beside = {"picture": written.picture, "data": written.own_rows}
    others = [
        {"loss": each.loss.to_dict(), "risk": each.risk, "bound": each.bound, "files": own, "check": written.check(i)}
        for i, (each, own) in enumerate(zip(trained.others, files[1:], strict=True), 1)
    ]
    return {
        "data": {"name": table.name, "N": table.N, "D": table.D, "notes": table.notes},
        "statement": certificate.statement,
        "bound": certificate.bound,
        "risk": certificate.risk,
        "nats": {"KL": certificate.kl, "ln|Θ|": certificate.log_count, "ln(ξ/δ)": certificate.log_xi},
        "confidence": 1.0 - certificate.delta,
        "loss": certificate.loss.to_dict(),
        "kernel": describe_kernel(certificate.kernel),
        "posterior": certificate.posterior.describe(),
        "scaling": dict(scalings(certificate)),
        "mean": "zero" if certificate.mean is None else certificate.mean.describe(),
        "training": trained.how,
        "notes": trained.notes,
        "others": others,
        "claims": ["P-14", "P-10", "P-44", "P-45", "P-47", "P-49"],
        "files": {**files[0], **{name: str(path) for name, path in beside.items() if path is not None}},
        "check": written.check(),
    }


def picture(table: Table, trained: Trained) -> Any:
    """The figure: predictions against truth with the band that the loss tolerates, and the terms of each bound."""
    y = table.shown[1]
    return figure(trained.certificate, y, trained.mean, trained.std, table.name, table.target, trained.others)
