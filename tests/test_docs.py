"""Every code block of the site runs and prints what the page shows; the texts of docstrings become valid markup."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import inspect
import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fitting
from fitting import SparseGP
from gpbounds.claims import ledger
from gpbounds.cli import COMMANDS, main

DOCS = Path(__file__).parent.parent / "docs"
GENERATED = ("_build", "commands", "copies", "gallery", "gallery_source", "generated", "scripts")
PAGES = [
    path.relative_to(DOCS).as_posix()
    for path in sorted(DOCS.rglob("*.md"))
    if not set(GENERATED) & set(path.relative_to(DOCS).parts)
]
NEEDS = r"(?:<!-- needs: (?P<needs>[\w ]+) -->\n)?"
BLOCK = re.compile(NEEDS + r"^```(?P<language>\S*)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "sh")


class Block(NamedTuple):
    language: str
    code: str
    needs: str
    shown: str | None
    """The text block that follows at once: what the code prints."""


def blocks(page: str) -> Iterator[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    fences = list(BLOCK.finditer(text))
    for i, match in enumerate(fences):
        after = fences[i + 1] if i + 1 < len(fences) else None
        follows = after and after["language"] == "text" and not text[match.end() : after.start()].strip()
        if match["language"] in RUN:
            yield Block(match["language"], match["code"], match["needs"] or "", after["code"] if follows else None)


def printed_by(block: Block, namespace: dict[str, Any], page: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        if block.language == "python":
            exec(compile(block.code, page, "exec"), namespace)
        else:
            for line in filter(None, block.code.splitlines()):
                words = shlex.split(line, comments=True)
                assert words[0] == "gpbounds", f"{page}: a block 'sh' holds commands of gpbounds, got {line!r}"
                assert main(words[1:]) == 0
    return output.getvalue()


NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"


def agree(printed: str, shown: str) -> bool:
    """Whether the page shows what is printed: equal words, numbers to 2 %, and "..." for any text.

    Lines may break elsewhere.  Training ends at slightly different numbers on different machines.
    """
    printed, shown = " ".join(printed.split()), " ".join(shown.split())
    parts = re.split(NUMBER, shown)
    pattern = "".join(
        NUMBER if i % 2 else re.escape(part).replace(re.escape("..."), ".*?") for i, part in enumerate(parts)
    )
    match = re.fullmatch(pattern, printed, re.DOTALL)
    numbers = zip(map(float, match.groups()), map(float, parts[1::2]), strict=True) if match else ()
    return match is not None and all(one == pytest.approx(other, rel=0.02) for one, other in numbers)


def test_pages_and_output_are_compared() -> None:
    assert agree("KL = 10.05 nats, 3 points\n", "KL = 10.1 nats, 3 points\n")
    assert agree("a 7 b", "a ... b")
    for printed in ("KL = 10.5 nats\n", "KL = 10.1 bits\n", "KL = 10.1 nats more", "KL = ten nats\n"):
        assert not agree(printed, "KL = 10.1 nats\n")


RUNNING = [page for page in PAGES if any(not block.needs for block in blocks(page))]
FEWER = {"tutorials/table.md": ("2000", "300")}
"""Pages whose rows are fewer in the quick profile: what is written there, what is read instead."""


@pytest.mark.parametrize(
    ("page", "whole"),
    [(page, page not in FEWER) for page in RUNNING]
    + [pytest.param(page, True, marks=pytest.mark.slow) for page in FEWER],
)
def test_blocks_run_and_print_what_is_shown(
    page: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for block in blocks(page):
        if not whole:
            block = block._replace(code=block.code.replace(*FEWER[page]))
        if not block.needs:
            printed = printed_by(block, namespace, page)
            if block.language == "python" or block.shown is not None:
                assert agree(printed, block.shown or ""), f"{page}:\n{block.code}\n{printed}"
    plt.close("all")


@pytest.mark.parametrize(
    ("page", "code", "needs"), [(page, b.code, b.needs) for page in PAGES for b in blocks(page) if b.needs]
)
def test_blocks_for_other_libraries_run_where_these_are_installed(page: str, code: str, needs: str) -> None:
    compiled = compile(code, page, "exec")
    for library in needs.split():
        pytest.importorskip(library, reason=f"this block of {page} needs {library}: its syntax is checked")
    exec(compiled, {})


BOUNDS = ("elbo", "evidence", "gap", "log_evidence", "exact_gap", "variational_bound")


def raw_targets(code: str) -> list[str]:
    """Calls of bounds with the kernel of an imported model and with y, not with the residuals of its mean."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and len(node.args) > 2]
    return [
        ast.unparse(call)
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in BOUNDS
        and ast.unparse(call.args[0]).endswith(".kernel")
        and ast.unparse(call.args[2]) == "y"
    ]


def test_bounds_of_imported_models_are_those_of_residuals() -> None:
    """A model of GPyTorch has a mean by default: with y in place of y - mean the bounds are those of another model."""
    assert raw_targets("renyi.gap(model.kernel, X, y, model.Z, 1.0)") == ["renyi.gap(model.kernel, X, y, model.Z, 1.0)"]
    raw = [call for page in PAGES for b in blocks(page) if b.language == "python" for call in raw_targets(b.code)]
    assert not raw


def test_blocks_are_found() -> None:
    assert "index.md" in PAGES
    assert sum(len(list(blocks(page))) for page in PAGES) >= 4
    assert len(list(blocks("index.md"))) == (DOCS / "index.md").read_text(encoding="utf-8").count("```python\n")


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The extensions of the site's build that need no Sphinx, by name."""
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))

    def load(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, DOCS / "extensions" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize("name", ["plain_text", "copies", "gallery", "parsers"])
def test_examples_of_the_extensions_hold(extension: Any, name: str) -> None:
    result = doctest.testmod(extension(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_code_and_examples_of_a_docstring_stay_as_they_are(extension: Any) -> None:
    kept = ["", ">>> 2 * 3", "6", "", "Parameters", "----------", "a_b : array (N,)"]
    assert extension("plain_text").converted(["The law of q* (R-thm1), see ``x*y`` and `z_`.", *kept]) == [
        r"The law of q\* (:claim:`R-thm1`), see ``x*y`` and `z_`.",
        *kept,
        "",
    ]


def test_a_link_that_leads_nowhere_is_refused(extension: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a link to a file of the repository, got gone\.md"):
        extension("copies").adapted("[words](gone.md)", Path("README.md"), tmp_path)


def test_every_command_has_a_page_that_names_each_option_of_its_help(
    extension: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parsers = extension("parsers")
    parsers.write_pages(tmp_path / "commands")
    index = (tmp_path / "commands" / "index.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"({name}.md)" in index
        assert f"{{command}} {name}\n" in (tmp_path / "commands" / f"{name}.md").read_text(encoding="utf-8")
        parser = parsers.parser_of(name)
        for words, each in {(name,): parser, **{(name, at): p for at, p in parsers.actions_of(parser).items()}}.items():
            assert main([*words, "--help"]) == 0
            helped = set(re.findall(r"^  (?:-\w,? ?\S*,? )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
            written = " ".join(text for _, rows in parsers.options_of(each) for text, _ in rows)
            assert helped - {"--help"} <= set(re.findall(r"--[\w-]+", written)), words


def test_a_command_in_no_group_is_refused(extension: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers = extension("parsers")
    monkeypatch.setitem(parsers.COMMANDS, "stray", "a command")
    with pytest.raises(ValueError, match=r"GROUPS: expected each of .*'stray'"):
        parsers.write_pages(tmp_path / "commands")


def test_every_card_of_the_gallery_has_a_picture_of_its_own(extension: Any, tmp_path: Path) -> None:
    extension("plain_text")
    gallery = extension("gallery")
    root = DOCS.parent
    for folder in ("docs/pictures", "examples"):
        shutil.copytree(root / folder, tmp_path / folder)
    site = tmp_path / "docs"
    gallery.copied(tmp_path / "examples", site / "gallery_source", site / "pictures", site / "scripts")
    cards = sorted((site / "gallery_source").glob("*.py"))
    assert len(cards) == len(gallery.ORDER)
    named_by_claims = {Path(claim.picture).stem for claim in ledger() if claim.picture}
    assert named_by_claims <= {card.stem for card in cards}  # the page of claims links to their pages
    shown = []
    for card in cards:
        named = re.search(r"^# sphinx_gallery_thumbnail_path = '(.+)'$", card.read_text(encoding="utf-8"), re.MULTILINE)
        assert named
        assert (site / named[1]).exists()
        shown.append(named[1])
    assert len(set(shown)) == len(shown)
    assert [path.stem for path in sorted((site / "scripts").glob("*.rst"))] == sorted(
        script.stem
        for script in (root / "examples").glob("*.py")
        if f"python examples/{script.name}" in script.read_text(encoding="utf-8") and script.stem not in gallery.ORDER
    )


def test_examples_after_parameters_are_no_parameters(extension: Any) -> None:
    lines = ["Sum.", "", "Parameters", "----------", "a : int", "", ">>> 1 + 1", "2", "", ">>> 2", "2"]
    converted = extension("plain_text").converted(lines)
    assert converted[5:9] == ["", "Examples", "--------", ""][:4]
    assert converted.count("Examples") == 1


@pytest.mark.parametrize("estimator", [getattr(fitting, name) for name in fitting.__all__ if name.endswith("GP")])
def test_the_page_of_an_estimator_describes_each_of_its_parameters(extension: Any, estimator: type) -> None:
    """Also those that its docstring leaves to another class."""
    plain_text = extension("plain_text")
    lines = plain_text.resolved(inspect.getdoc(estimator).splitlines(), plain_text._docstrings_beside(estimator))
    assert not [line for line in lines if " : as in `" in line]
    described = plain_text._described(lines)
    assert set(inspect.signature(estimator).parameters) <= set(described)


def test_code_of_the_site_and_the_readme_fits_into_the_column() -> None:
    long = [
        (path.name, line)
        for path in (*(DOCS / page for page in PAGES), DOCS.parent / "README.md")
        for match in BLOCK.finditer(path.read_text(encoding="utf-8"))
        if match["language"] in RUN
        for line in match["code"].splitlines()
        if len(line) > 100
    ]
    assert not long


def test_the_eight_functions_of_a_fit_stand_where_it_is_said_and_are_entered_in_this_order() -> None:
    text = Path(__file__).parent.parent.joinpath("ARCHITECTURE.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| `(\S+\.py):(\d+)` `([\w.]+)` \|", text, re.MULTILINE)
    assert len(steps) == 8
    for path, line, name in steps:
        code = Path(__file__).parent.parent.joinpath(path).read_text(encoding="utf-8").split("\n")[int(line) - 1]
        assert code.strip().startswith(f"def {name.rpartition('.')[2]}("), (path, line, name, code)
    entered: list[str] = []

    def watch(frame: Any, event: str, argument: object) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and name in {each for _, _, each in steps} and name not in entered:
            entered.append(name)

    X = np.linspace(0.0, 6.0, 40)[:, None]
    model = SparseGP(n_inducing=5, start="scale", max_iter=2)
    sys.setprofile(watch)
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0]))
    finally:
        sys.setprofile(None)
    assert entered == [name for _, _, name in steps]
