"""The record of one run of an optimiser."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fitting.archive import one_line, read_archive, write_archive
from fitting.training.ending import Ending
from gpbounds.arrays import Float
from gpbounds.records import ANY, Fields, Format
from gpbounds.texts import in_one_line

Loss = Callable[[Float], tuple[float, Float]]
"""vector ↦ (−F, −∂F)."""

Status = Literal["converged", "settled", "resolved", "iterations", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an optimiser: the best point seen, the curve, and why it stopped.

    Attributes
    ----------
    vector : array (p,)
        The best point seen.
    value : float
        F at this point; with mini-batches, N/B times F of the reference batch.
    values : tuple of float
        F at the start and after each iteration; −inf where F had no value.
    status : "converged", "settled", "resolved", "iterations", "interrupted" or "stalled"
        "settled": further iterations are expected to gain less than matters.  "resolved": the derivatives of an
        estimated objective lie within their random errors.  "iterations": all were used.
        "stalled": no step improved F, although the gradient is not small.
    reason : str
        The status as a sentence.
    evaluations : int
        Number of evaluations of the objective.
    failures : int
        Number of evaluations without a value: a matrix did not factorise, or numbers overflowed.
    state : dict
        Arrays and plain numbers with which the optimiser can continue.
    """

    vector: Float
    value: float
    values: tuple[float, ...]
    status: Status
    reason: str
    evaluations: int
    failures: int
    state: dict[str, Any] = field(default_factory=dict, repr=False)

    __repr__ = in_one_line

    @property
    def iterations(self) -> int:
        """Number of steps."""
        return max(len(self.values) - 1, 0)

    def check_size(self, p: int) -> None:
        """Refuse a run with another number of parameters than ``p``, as a changed checkpoint may hold.

        Raises
        ------
        ValueError
        """
        if self.vector.shape != (p,):
            raise ValueError(
                f"checkpoint: expected {p} parameters, got a checkpoint of {self.vector.size}: pass another path, or "
                "delete this file"
            )

    def is_over(self, max_iter: int, ending: Ending | None = None) -> bool:
        """Whether a run with ``max_iter`` iterations that ends by ``ending`` is complete."""
        if self.status == "settled":
            return self.iterations >= max_iter or (ending is not None and ending.reason(self.values) is not None)
        if self.status == "interrupted" and self.iterations == max_iter:  # a kill came before the record of the end
            return False
        return self.status in ("converged", "resolved", "stalled") or self.iterations >= max_iter


# The runs of one training, in a file from which training continues.

KIND, VERSION = "checkpoint", 1


class Session:
    """Runs by name, in order; if there is a path, they are read from it and written to it.

    Parameters
    ----------
    path : path or None
        None writes no file.
    fingerprint : str
        Identifies data and settings: a file with another fingerprint is refused.
    seed : int
        Source of all random numbers of the training; the seed in the file takes precedence.

    Raises
    ------
    ValueError
        when the file belongs to other data or settings.
    """

    def __init__(self, path: str | os.PathLike[str] | None, fingerprint: str, seed: int) -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint, self.seed = fingerprint, seed
        self.runs: dict[str, Run] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def run(
        self,
        name: str,
        max_iter: int,
        train: Callable[[Run | None, Callable[[Run], None] | None], Run],
        ending: Ending | None = None,
    ) -> Run:
        """The result of ``train(earlier, save)``, or the stored run if it is complete."""
        earlier = self.runs.get(name)
        if earlier is not None and earlier.is_over(max_iter, ending):
            return earlier

        # Later runs may have started from the result of this one.
        order = list(self.runs)
        for later in order[order.index(name) + 1 :] if name in order else []:
            del self.runs[later]

        def save(run: Run) -> None:
            self.runs[name] = run
            self._write()

        run = train(earlier, None if self.path is None else save)
        self.runs[name] = run
        return run

    def _write(self) -> None:
        assert self.path is not None
        arrays: dict[str, Any] = {}
        runs = []
        for i, (name, run) in enumerate(self.runs.items()):
            record = write_run(run, f"{i}/", arrays)
            arrays |= {f"{i}/state/{key}": v for key, v in run.state.items() if isinstance(v, np.ndarray)}
            numbers = {key: v for key, v in run.state.items() if not isinstance(v, np.ndarray)}
            runs.append({"name": name, "state": numbers, **record})
        about = {"kind": KIND, "version": VERSION, "fingerprint": self.fingerprint, "seed": self.seed, "runs": runs}
        write_archive(self.path, about, arrays)

    def _read(self, path: Path) -> None:
        about, arrays = read_archive(path, KIND, VERSION)
        if about.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint: expected one of the same data and settings, got one of others in {os.fspath(path)!r}: "
                "pass another path, or delete this file"
            )
        try:
            seed, runs = about["seed"], [_run(i, record, arrays) for i, record in enumerate(about["runs"])]
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                raise ValueError(f"seed: expected a whole number >= 0, got {seed!r}")
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError) as error:
            raise ValueError(
                f"checkpoint: expected one that training wrote, got parts of none in {os.fspath(path)!r} "
                f"({one_line(error)}): pass another path, or delete this file"
            ) from error
        self.seed, self.runs = seed, dict(runs)


RUN = Format(Run, dict.fromkeys(("value", "status", "reason", "evaluations", "failures"), ANY))
"""What a file holds of a run besides its arrays."""


def write_run(run: Run, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The plain values of ``run`` without its state; its vector and curve go to ``arrays``."""
    arrays[f"{prefix}vector"], arrays[f"{prefix}values"] = run.vector, np.array(run.values)
    return RUN.write(run)


def read_run(record: Any, prefix: str, arrays: Mapping[str, Any], state: dict[str, Any] | None = None) -> Run:
    """The run that `write_run` wrote, with ``state``."""
    fields = Fields(record)
    numbers = RUN.arguments(fields)
    fields.done()
    vector, values = arrays[f"{prefix}vector"], tuple(arrays[f"{prefix}values"].tolist())
    return Run(vector=vector, values=values, state=state or {}, **numbers)


def _run(i: int, record: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, Run]:
    """The name and the record of run ``i``, whose parts must be of the right kinds and shapes."""
    values, prefix = arrays[f"{i}/values"], f"{i}/state/"
    rest = {name: part for name, part in record.items() if name not in ("name", "state")}
    state = record["state"] | {key.removeprefix(prefix): v for key, v in arrays.items() if key.startswith(prefix)}
    run = read_run(rest, f"{i}/", arrays, state)
    numbers = {"vector": run.vector, "values": values, **{k: v for k, v in state.items() if isinstance(v, np.ndarray)}}
    for name, array in numbers.items():
        if array.dtype != (np.uint64 if name == "digests" else np.float64):
            raise ValueError(f"{name}: expected doubles, got {array.dtype}")
    if run.vector.ndim != 1 or values.ndim != 1 or not np.isfinite(run.vector).all() or np.isnan(values).any():
        raise ValueError("vector, values: expected lists of numbers")
    counts = (run.evaluations, run.failures)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts):
        raise ValueError(f"evaluations, failures: expected whole numbers >= 0, got {counts}")
    known = isinstance(run.value, float) and (math.isfinite(run.value) or (run.value == -math.inf and not values.size))
    if not isinstance(run.status, str) or run.status not in get_args(Status) or not known:
        raise ValueError(f"status, value: expected a status and a number, got {run.status!r} and {run.value!r}")
    if not isinstance(run.reason, str) or not isinstance(record["name"], str):
        raise ValueError("name, reason: expected texts")
    _check_state(state, run.vector.size)
    return record["name"], run


def _check_state(state: dict[str, Any], p: int) -> None:
    """Refuse a state of Adam or of L-BFGS-B with p numbers that does not fit together."""
    numbers: dict[str, type[int] | type[float]] = {"candidate": int}
    if "losses" in state:
        k = len(state["losses"])
        if k == 0 or np.isnan(state["losses"]).any() or not math.isfinite(state["losses"][0]):
            raise ValueError("losses: expected numbers, of which the first is finite, got others")
        shapes = {"losses": (k,), "digests": (k,), "gradients": (k, p)}
    elif "x" in state:
        shapes = dict.fromkeys(("x", "first", "second"), (p,))
        numbers |= {"t": int, "failed": int, "rate": float, "bad": int, "since": int}
        np.random.default_rng(0).bit_generator.state = state["rng"]
    elif unknown := set(state) - {"kept", "sites", "candidate"}:
        raise ValueError(f"state: expected that of L-BFGS-B or of Adam, got {', '.join(map(repr, sorted(unknown)))}")
    else:
        shapes = {}
    for name, kind in numbers.items():
        value = ({"candidate": 0, "bad": 0, "since": 0} | state)[name]
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value < 2**53:
            raise ValueError(f"{name}: expected a number >= 0, got {value!r}")
    for name, shape in shapes.items():
        if state[name].shape != shape or (name != "losses" and not np.isfinite(state[name]).all()):
            raise ValueError(f"{name}: expected finite numbers of shape {shape}, got others")
