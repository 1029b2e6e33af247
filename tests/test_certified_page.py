"""The page "What certified means" lists every public function that can return a certified bound."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import gpbounds

PAGE = Path(__file__).parent.parent / "docs" / "certified.md"
RECORDS = (
    r"\b(Bound|ExactPredictions|Interval|Plan|Corollary|Sandwich|Predictive|SampleSize|Certificate|CoverageFactor)\b"
)


def functions_with_bounds() -> dict[str, Any]:
    """Public functions that take ``rigor`` or ``certified``, or return a bound, by their names below ``gpbounds``."""
    packages = [f"gpbounds.{package.name}" for package in pkgutil.iter_modules(gpbounds.__path__) if package.ispkg]
    named = {}
    for package in ("gpbounds", *packages, "gpbounds.rates.corollaries"):
        module = importlib.import_module(package)
        own = [name for name, item in vars(module).items() if getattr(item, "__module__", "") == package]
        for name in getattr(module, "__all__", [name for name in own if name[0] != "_"]):
            item = getattr(module, name)
            if not inspect.isfunction(item):
                continue
            signature = inspect.signature(item)
            chosen = {"rigor", "certified"} & set(signature.parameters)
            if chosen or re.search(RECORDS, str(signature.return_annotation)):
                named.setdefault(item, f"{package}.{name}".removeprefix("gpbounds."))
    return {name: function for function, name in named.items()}


def test_what_certified_means_lists_every_function_that_can_be_certified() -> None:
    """Each is in the table, or in the list of those that are not; the source of these never certifies anything."""
    page = PAGE.read_text(encoding="utf-8")
    table = "\n".join(line for line in page.splitlines() if line.startswith("| "))
    uncertified = page.split("These return bounds that are not certified")[1]
    named, missing = functions_with_bounds(), []
    for name, function in named.items():
        if f"`{name}`" in table:
            continue
        plain = f"`{name}`" in uncertified
        if not plain or re.search(r"certified=(?!False)", inspect.getsource(function)):
            missing.append(name)
    assert not missing
    assert len(named) > 40
    listed = set(re.findall(r"`((?:[a-z]\w*\.)+\w+)`", table + uncertified))  # methods begin with a class
    assert {name for name in listed if name not in named and not name.startswith("gpbounds")} == set()
