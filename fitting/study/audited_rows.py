"""What an audit is asked, and which rows of a table a model was trained on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.study.standardised import inputs_and_target
from fitting.study.steps import WrongArguments
from fitting.study.words import Spelling, argument
from gpbounds import audit as audits
from gpbounds.errors import shown
from gpbounds.renyi.members import WORK
from gpbounds.rows.table_rows import TableRows

SAME = 1e-9
"""Largest difference, relative to the largest value, of a target in the table from that of a training row."""


@dataclass(frozen=True)
class AuditQuestion:
    """What an audit is asked; `audit` describes its arguments.

    Attributes
    ----------
    nats : float
    most, rows : int
    held_out : float
    epsilon : float or None
    delta : float
    seed : int
    progress : bool
    spelled : function
        Spells arguments in notes.
    work : float
    loss : float
    test_rows : int or None
    retrain : bool
    file, saved : str
        The files of the table and of the model, for the commands that the shell proposes.
    """

    nats: float = 1.0
    most: int = 1000
    rows: int = 3000
    held_out: float = 0.0
    epsilon: float | None = None
    delta: float = 0.05
    seed: int = 0
    progress: bool = False
    spelled: Spelling = argument
    work: float = WORK
    loss: float = audits.LOSS
    test_rows: int | None = None
    retrain: bool = False
    file: str = ""
    saved: str = ""


def split(N: int, share: float, seed: int, spelled: Spelling = argument) -> tuple[Any, Any]:
    """Numbers of the rows for training, and of a random ``share`` that is held out, in order; 0 holds out none."""
    option = spelled("held_out")
    if not 0.0 <= share < 1.0:
        raise WrongArguments(f"{option}: expected a share between 0 and 1, got {share:g}")
    count = round(share * N)
    if share and (count < 1 or N - count < 2):
        raise WrongArguments(f"{option}: expected to hold out at least one row and to leave two, got {count} of {N}")
    order = np.random.default_rng(seed).permutation(N)
    return np.sort(order[count:]), np.sort(order[:count])


def test_rows_of(test: Any, table: TableRows, target: str | None) -> TableRows:
    """The rows of ``test``, with the inputs of the table."""
    frame = target is not None and hasattr(test, "columns")
    if not frame and not (isinstance(test, tuple | list) and len(test) == 2):
        raise ValueError(f"test: expected (X_test, y_test), or a data frame with target=, got {shown(test)}")
    parts = (test, None, target) if frame else (*test, None)
    try:
        columns, points, targets, _ = inputs_and_target(*parts)
    except ValueError as error:
        raise type(error)(f"test: {error}") from None
    if points.shape[1] != table.D or (columns and table.columns and columns != table.columns):
        there, here = (
            ", ".join(names) or f"{width} inputs"
            for names, width in ((table.columns, table.D), (columns, points.shape[1]))
        )
        raise ValueError(f"test: expected the inputs of X in their order, {there}, got {here}")
    return TableRows("the test rows", points, targets, columns=columns, target=table.target)


def with_test(table: TableRows, numbers: tuple[Any, Any], test: TableRows | None) -> tuple[TableRows, tuple[Any, Any]]:
    """The table, and the numbers of rows for training and of rows for calibration: those of ``test``, added behind."""
    if test is None:
        return table, numbers
    note = f"Predictions are compared on the {test.N} rows of {test.name}, whose numbers here go on from {table.N + 1}."
    both = replace(
        table,
        X=np.concatenate([table.X, test.X]),
        y=np.concatenate([table.y, test.y]),
        notes=(*table.notes, *test.notes, note),
        lines=(),
    )
    return both, (numbers[0], table.N + np.arange(test.N))


def training_and_held_out(
    table: TableRows, asked: AuditQuestion, test: TableRows | None, *, own: bool
) -> tuple[TableRows, tuple[Any, Any]]:
    """The table with ``test`` behind it, and the numbers of rows for a model without rows of its own, and of others.

    ``own``: whether the model has its own q(u).
    """
    option, spelled = asked.spelled("held_out"), asked.spelled
    if own and asked.held_out:
        raise WrongArguments(
            f"{option}: expected 0 for a model with its own q(u), which belongs to all rows of its training, got "
            f"{asked.held_out:g}: pass these rows, and others with {spelled('test')}"
        )
    if test is not None and asked.held_out:
        raise WrongArguments(f"{option}: expected not to be given with {spelled('test')}")
    return with_test(table, split(table.N, asked.held_out, asked.seed, spelled), test)


def training_rows(model: Any, table: TableRows, where: str, spelled: Spelling) -> tuple[Any, Any]:
    """Numbers of the rows that the model was trained on, in its order, and of the others."""
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    X, y = np.asarray(model.X_train_), shift + scale * np.ravel(model.y_train_)
    close = SAME * max(float(np.abs(table.y).max()), 1e-300)
    waiting: dict[bytes, list[int]] = defaultdict(list)
    for number, row in enumerate(table.X + 0.0):
        waiting[row.tobytes()].append(number)
    chosen, missing = [], 0
    for row, target in zip(X + 0.0, y, strict=True):
        numbers = waiting[row.tobytes()]
        place = next((i for i, number in enumerate(numbers) if abs(table.y[number] - target) <= close), None)
        if place is None:
            missing += 1
        else:
            chosen.append(numbers.pop(place))
    if missing:
        raise WrongArguments(
            f"{spelled('model')}: expected a model whose training rows are among those of {table.name}, but {missing} "
            f"of its {len(X)} rows{where} are not"
        )
    return np.array(chosen, dtype=np.int64), np.setdiff1d(np.arange(table.N), chosen)
