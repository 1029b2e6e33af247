"""The runs of one training, in a file from which training continues."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fitting.archive import read_archive, write_archive
from fitting.training.run import Run
from fitting.training.tail import Ending

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
            plain = asdict(run)
            state = plain.pop("state")
            arrays[f"{i}/vector"], arrays[f"{i}/values"] = plain.pop("vector"), np.array(plain.pop("values"))
            arrays |= {f"{i}/state/{key}": v for key, v in state.items() if isinstance(v, np.ndarray)}
            numbers = {key: v for key, v in state.items() if not isinstance(v, np.ndarray)}
            runs.append({"name": name, "state": numbers, **plain})
        about = {"kind": KIND, "version": VERSION, "fingerprint": self.fingerprint, "seed": self.seed, "runs": runs}
        write_archive(self.path, about, arrays)

    def _read(self, path: Path) -> None:
        about, arrays = read_archive(path, KIND, VERSION)
        if about["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"checkpoint: expected one of the same data and settings, got one of others in {os.fspath(path)!r}: "
                "pass another path, or delete this file"
            )
        self.seed = about["seed"]
        for i, plain in enumerate(about["runs"]):
            name, state = plain.pop("name"), plain.pop("state")
            prefix = f"{i}/state/"
            state |= {key.removeprefix(prefix): v for key, v in arrays.items() if key.startswith(prefix)}
            values = tuple(arrays[f"{i}/values"].tolist())
            self.runs[name] = Run(vector=arrays[f"{i}/vector"], values=values, state=state, **plain)
