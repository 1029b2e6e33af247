"""Each command of the command line: status, output, errors, the files that it writes; with ``--json``, and its help."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from .data import content, table

COMMANDS = ("rate", "plan", "curve", "klinv", "pac", "certify", "train", "audit", "mc", "claims", "demo")
FIXED = ("--lengthscale", "0.7,0.9", "--variance", "1.5", "--noise", "0.2", "--simulate", "0")
SHARP = ("--rigor", "sharp")
OLDER = ("--rigor", "arb")
"""The option as older commits spell it, tried where they refuse the word."""


def calls() -> dict[str, Callable[[], Any]]:
    """All commands."""
    found: dict[str, Callable[[], Any]] = {"help": partial(_run, ["--help"]), "version": partial(_run, ["--version"])}
    found |= {f"{name}/help": partial(_run, [name, "--help"]) for name in COMMANDS}
    found |= {f"certify {name}/help": partial(_run, ["certify", name, "--help"]) for name in ("train", "check")}
    for name, words in (_formulas() | _on_data()).items():
        found[f"{name}/text"] = partial(_on_a_table, words)
        found[f"{name}/json"] = partial(_on_a_table, [*words, "--json"])
    return found | _trained() | {f"refused/{name}": partial(_on_a_table, words) for name, words in _wrong().items()}


def _formulas() -> dict[str, list[str]]:
    plan = ["plan", "-N", "1e6", "--target", "0.1"]
    return {
        "rate/plain": ["rate", "-N", "1e6", "-M", "10,20,40"],
        "rate/norm": ["rate", "-N", "1e4", "-M", "30", "--y-norm2", "1e4", "--alpha", "0.5,1", "--form", "printed"],
        "rate/matern": ["rate", "-N", "1e4", "-M", "50", "--kernel", "matern32", "--inputs", "uniform"],
        "rate/sharp": ["rate", "-N", "1e6", "-M", "20", *SHARP],
        "rate/range": ["rate", "-N", "1e4", "-M", "30", "--lengthscale-range", "0.5:2"],
        "plan/plain": plan,
        "plan/two dimensions": [*plan, "--lengthscale", "1,2", "--std", "1,0.5"],
        "plan/methods": [*plan, "--method", "inducing", "fourier", "mercer", "--width", "10"],
        "plan/sharp": [*plan, *SHARP],
        "plan/both ways": [*plan, "--direction", "p||q", "--alpha", "0.5"],
        "curve/plain": ["curve", "-N", "1e3,1e6", "--out", "{folder}/curve.png"],
        "klinv/plain": ["klinv", "0.02", "0.05"],
        "klinv/large": ["klinv", "0.5", "300"],
        "pac/plain": ["pac", "--risk", ".093", "--kl", "42", "-N", "404", "--delta", ".01"],
        "pac/grid": [
            "pac",
            "--risk",
            ".093",
            "--kl",
            "42",
            "-N",
            "404",
            "--grid-points",
            "1201",
            "--hyperparameters",
            "2",
        ],
        "mc/poisson": ["mc", "--likelihood", "poisson", "--y", "3", "--m", "0.5", "--v", "1"],
        "mc/probit": ["mc", "--likelihood", "bernoulli", "--y", "1", "--m", "0.5", "--v", "1", "--zeta", "0.1", *SHARP],
        "mc/student": ["mc", "--likelihood", "student_t", "--y", "1", "--m", "0.5", "--v", "1", "--step", "2/t^0.7"],
        "claims/one": ["claims", "R-thm1"],
        "claims/section": ["claims", "--section", "G", "--verdict", "misprint"],
    }


def _on_data() -> dict[str, list[str]]:
    data = ["--data", "{table}"]
    quick = ["--held-out", "0.2", "--max-iter", "8", "--out", "{folder}/out"]
    pac = ["--epsilon", "0.6", "--delta", "0.05", "--kernel-lengthscale", "shared", "--grid", "-3", "3", "12"]
    pac += ["--iterations", "8", "--out", "{folder}/out"]
    found = {
        "rate/data": ["rate", *data, "-M", "10,20", *FIXED[:-2]],
        "rate/data, sharp": ["rate", *data, "-M", "10", *FIXED[:-2], *SHARP],
        "plan/data": ["plan", *data, "--target", "1", *FIXED],
        "plan/data, fitted": ["plan", *data, "--target", "1", "--simulate", "0"],
        "plan/data, sharp": ["plan", *data, "--target", "1", *FIXED, *SHARP],
        "plan/data, old forms": ["plan", *data, "--target", "1", *FIXED, "--old-forms", "--best", "0"],
        "plan/data, simulated": ["plan", *data, "--target", "1", *FIXED[:-1], "39", "--rows", "40"],
        "curve/data": ["curve", *data, *FIXED, "--out", "{folder}/curve.png", "-M", "5:25:10"],
        "audit/fresh": ["audit", "{table}", "--inducing", "8", "--most", "30", "--out", "{folder}/audit.html"],
        "audit/certificate": [
            *["audit", "{table}", "--inducing", "8", "--most", "20", "--enough", "5", "--certificate", "1"],
            *["--out", "{folder}/audit.html"],
        ],
        "certify train/fitc": ["certify", "train", "{table}", "--method", "fitc", "--inducing", "6", *pac],
        "certify train/full": ["certify", "train", "{table}", *pac],
        "certify train/split": ["certify", "train", "{table}", "--scaling", "split", "--mean", "linear", *pac],
        "certify train/refused": ["certify", "train", "{table}", *pac, "--mean", "linear"],
    }
    for selection in ("kdpp", "best", "rpcholesky", "uniform", "kmeans", "leverage", "none"):
        found[f"plan/select {selection}"] = [
            "plan",
            *data,
            "--target",
            "1",
            *FIXED,
            "--select",
            selection,
            "--rows",
            "40",
        ]
    for model in ("exact", "sparse", "renyi", "lowrank", "variational", "pac", "sparse-pac"):
        sized = ["--rank", "8"] if model == "lowrank" else [] if model in ("exact", "pac") else ["--inducing", "6"]
        found[f"train/{model}"] = ["train", "{table}", "--model", model, *sized, *quick]
    found["train/classifier"] = ["train", "{labels}", "--model", "classifier", "--inducing", "6", *quick]
    return found


def _trained() -> dict[str, Callable[[], Any]]:
    """Commands on the files of other commands."""
    train = ["train", "{table}", "--inducing", "6", "--max-iter", "8", "--out", "{folder}/out"]
    certify = [
        "certify",
        "train",
        "{table}",
        "--method",
        "vfe",
        "--inducing",
        "6",
        "--epsilon",
        "0.6",
        "--iterations",
        "5",
    ]
    certify += ["--kernel-lengthscale", "shared", "--grid", "-3", "3", "12", "--out", "{folder}/out"]
    check = ["certify", "check", "{folder}/out/certificate.json", "--data"]
    audit = ["audit", "{table}", "--model", "{folder}/out/model.npz", "--most", "20", "--out", "{folder}/audit.html"]
    return {
        "audit/model": partial(_on_a_table, audit, first=train),
        "audit/model, json": partial(_on_a_table, [*audit, "--json"], first=train),
        "certify check/text": partial(_on_a_table, [*check, "{table}"], first=certify),
        "certify check/json": partial(_on_a_table, [*check, "{table}", "--json"], first=certify),
        "certify check/rigorous": partial(_on_a_table, [*check, "{table}", "--rigorous"], first=certify),
        "certify check/other data": partial(_on_a_table, [*check, "{labels}"], first=certify),
        "demo": partial(
            _on_a_table,
            ["demo", "--out", "{folder}/demo.png", "--draws", "1", "--simulate", "0", "--target", "30", "--json"],
        ),
    }


def _wrong() -> dict[str, list[str]]:
    return {
        "no command": [],
        "other command": ["other"],
        "no M": ["rate", "-N", "1e6"],
        "M": ["rate", "-N", "10", "-M", "20"],
        "kernel": ["rate", "-N", "1e6", "-M", "20", "--kernel", "other"],
        "alpha": ["rate", "-N", "1e6", "-M", "20", "--alpha", "2"],
        "target": ["plan", "-N", "1e6", "--target=-1"],
        "no file": ["plan", "--data", "{folder}/nothing.csv", "--target", "1"],
        "sharp matern": ["plan", "-N", "100", *SHARP, "--kernel", "matern32", "--inputs", "uniform"],
        "words": ["plan", "--data", "{labels}", "--target", "1"],
        "klinv": ["klinv", "2", "0.1"],
        "pac": ["pac", "--risk", "2", "--kl", "1", "-N", "100"],
        "mc": ["mc", "--likelihood", "poisson", "--y", "0.5", "--m", "0", "--v", "1"],
        "claim": ["claims", "R-other"],
        "train column": ["train", "{table}", "--target", "other"],
        "train labels": ["train", "{labels}", "--model", "sparse"],
        "audit model": ["audit", "{table}", "--model", "{folder}/nothing.npz"],
        "check file": ["certify", "check", "{folder}/nothing.json", "--data", "{table}"],
    }


def _on_a_table(words: list[str], first: list[str] | None = None) -> Any:
    """A command in a folder with a table of numbers, and one with labels; after another command, if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "labels").mkdir()
        labels = table(f"{folder}/labels", words=("down", "up"))
        places = {"folder": folder, "table": table(folder), "labels": labels}
        before = _run([word.format(**places) for word in first]) if first else None
        kept = {path for path in Path(folder).rglob("*") if path.is_file()}
        found = _run([word.format(**places) for word in words])
        written = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path not in kept]
        files = {str(path.relative_to(folder)): _shown(path) for path in written}
        return found | ({"files": files} if files else {}) | ({"first": before["status"]} if before else {})


def _shown(path: Path) -> Any:
    """A file's content; durations in JSON are no content."""
    found = content(path)
    return _without_seconds(found) if isinstance(found, str) else found


def _without_seconds(text: str) -> str:
    return re.sub(r'("[a-z_ ]*(?:seconds|duration|time)[a-z_ ]*": )[\d.e+-]+', r"\1<duration>", text)


def _run(words: list[str]) -> dict[str, Any]:
    """Status, output and errors of ``python -m gpbounds`` in this process."""
    found = _once(words)
    if "sharp" in words and found["status"] == 2 and "invalid choice: 'sharp'" in found["err"]:
        at = words.index("sharp")
        found = _once([*words[: at - 1], *OLDER, *words[at + 1 :]])
    return found


def _once(words: list[str]) -> dict[str, Any]:
    out, err, status = io.StringIO(), io.StringIO(), 0
    arguments = mock.patch.object(sys, "argv", ["gpbounds", *words])
    with arguments, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("gpbounds", run_name="__main__", alter_sys=False)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    texts = (_without_seconds(stream.getvalue()) for stream in (out, err))
    return {"status": status, **dict(zip(("out", "err"), texts, strict=True))}
