"""The files that describe the distribution agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import gpbounds

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def cited(field: str) -> str:
    """A top-level field of CITATION.cff."""
    match = re.search(rf"^{field}: \"?(.+?)\"?$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert match, field
    return match[1]


def test_the_citation_names_this_version_this_licence_and_these_authors() -> None:
    assert cited("version") == PROJECT["version"] == gpbounds.__version__
    assert cited("license") == PROJECT["license"] == "MIT"
    assert cited("title") == PROJECT["name"]
    assert cited("abstract").rstrip(".") == PROJECT["description"].rstrip(".")
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert all(f'name: "{author["name"]}"' in text for author in PROJECT["authors"])
