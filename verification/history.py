"""The commits at which stored numbers were measured, and how many commits ago that was."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNKNOWN = "unknown"
"""The commit where there is no Git, or a folder of another repository."""
SHOWN = 12
"""Digits of a hash that are shown."""


def git(*words: str, root: Path = ROOT) -> str | None:
    """What Git says; None if it fails, or is not there."""
    try:
        said = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, encoding="utf-8")
    except OSError:
        return None
    return said.stdout.strip() if said.returncode == 0 else None


def is_ours(root: Path = ROOT) -> bool:
    """Whether ``root`` is the top of a repository, and no copy inside of another one."""
    top = git("rev-parse", "--show-toplevel", root=root)
    return top is not None and Path(top).resolve() == root.resolve()


def commit(root: Path = ROOT) -> str:
    """The commit checked out, with a plus where the packages or their tests differ from it; or `UNKNOWN`."""
    head = git("rev-parse", "HEAD", root=root) if is_ours(root) else None
    if not head:
        return UNKNOWN
    folders = [name for name in ("gpbounds", "fitting", "tests", "verification") if (root / name).exists()]
    return head + ("+" if git("status", "--porcelain", "--", *folders, root=root) else "")


def age(commit: str, root: Path = ROOT) -> int | None:
    """How many commits came after ``commit``; None where the history does not say, as in a shallow clone."""
    if not is_ours(root) or git("rev-parse", "--is-shallow-repository", root=root) != "false":
        return None
    if git("merge-base", "--is-ancestor", commit.removesuffix("+"), "HEAD", root=root) is None:
        return None
    count = git("rev-list", "--count", f"{commit.removesuffix('+')}..HEAD", root=root)
    return None if count is None else int(count)


def stored_with(path: Path, root: Path = ROOT) -> str | None:
    """The commit that stored the file as it is; None if Git does not know one, or it is not the file's last state."""
    if not is_ours(root) or git("status", "--porcelain", "--", str(path), root=root):
        return None
    if git("rev-parse", "--is-shallow-repository", root=root) != "false":
        return None
    return git("log", "-1", "--format=%H", "--", str(path), root=root) or None


def named(commit: str, root: Path = ROOT) -> str:
    """The commit as text, and its age where it is known."""
    shown = commit[:SHOWN] + ("+" if commit.endswith("+") and len(commit) > SHOWN else "")
    if (commits := age(commit, root)) is None:
        return shown
    return f"{shown}, {commits} commit{'' if commits == 1 else 's'} ago"


def measured(commits: Iterable[str], path: Path, root: Path = ROOT) -> str:
    """When the numbers in the file ``path`` were measured: on which commits, or with which one they were stored."""
    if known := [each for each in commits if each != UNKNOWN]:
        return "measured on " + "; ".join(named(each, root) for each in known)
    kept = stored_with(path, root)
    return "commit not recorded" + (f"; stored with {named(kept, root)}" if kept else "")
