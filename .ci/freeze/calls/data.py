"""Rows and records that several calls share; every call makes its own, from a fixed seed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np


def rows(N: int = 40, D: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, D) on [0, 6)^D and noisy targets (N,)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (N, D))
    return X, np.sin(X).sum(axis=1) + 0.2 * rng.standard_normal(N)


def npy(folder: str, X: np.ndarray, y: np.ndarray) -> tuple[str, str]:
    """Paths of the rows as files, which are read in partitions."""
    paths = f"{folder}/X.npy", f"{folder}/y.npy"
    np.save(paths[0], X)
    np.save(paths[1], y)
    return paths


def table(folder: str, N: int = 60, D: int = 2, words: tuple[str, str] | None = None) -> str:
    """Path of a CSV table with a header; its last column is the target, or one of two words."""
    X, y = rows(N, D, seed=5)
    last = [words[int(value > 0.0)] for value in y] if words else [repr(float(value)) for value in y]
    names = ",".join([*(f"x{d}" for d in range(D)), "target"])
    lines = [",".join([*map(repr, map(float, row)), end]) for row, end in zip(X, last, strict=True)]
    path = Path(folder) / "table.csv"
    path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    return str(path)


def content(path: Path) -> Any:
    """The content of a file: arrays of a model by name, short texts whole, of anything else the size and a hash."""
    if path.read_bytes()[:2] == b"PK":
        with np.load(path, allow_pickle=False) as archive:
            return {name: _member(archive[name]) for name in archive.files}
    if path.suffix in (".json", ".csv", ".html", ".txt"):
        return path.read_text(encoding="utf-8")
    if path.suffix == ".png":
        return "a picture"
    found = path.read_bytes()
    return {"bytes": len(found), "sha256": hashlib.sha256(found).hexdigest()}


def _member(array: np.ndarray) -> Any:
    """An array of a model file; bytes of JSON as their text."""
    return bytes(array).decode() if array.dtype == np.uint8 else array
