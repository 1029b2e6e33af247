"""Copies of the examples for sphinx-gallery: with a title, a text in reStructuredText and the committed picture."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from plain_text import converted, prose

HEADER = """\
Examples
========

Each script is in the folder ``examples/`` of the repository and runs by itself; some run for hours.  The build of this
site runs none of them: it shows pictures that were made before.  Their numbers are on the page :doc:`/copies/results`.
Scripts that print tables and draw nothing: %s.

One figure for all papers, and one for each
-------------------------------------------

%s

All scripts with a picture
--------------------------

.. toctree::
   :hidden:

%s

"""

ORDER = (
    *(
        "plan_inducing",
        "every_family",
        "bound_vs_trained",
        "kdpp_trace",
        "evidence_at_scale",
        "exact_or_sparse",
        "libraries_said",
        "structured_bounds",
        "noise_per_row",
        "renyi_study",
        "which_order",
        "predictive_sandwich",
    ),
    *(
        "trained_divergence",
        "fourier_truth",
        "lowrank_decay",
        "lowrank_ranks",
        "hilbert_ranks",
        "hilbert_truth",
        "lowrank_tables",
        "mercer_curves",
        "deep_features",
    ),
    *(
        "deep_schemes",
        "losses",
        "kl_inverse",
        "pac_gp_toy",
        "pac_gp_housing",
        "pac_gp_grid",
        "pac_sgp_inducing",
        "certificates",
    ),
    *("dlm_losses", "dlm_beta", "dlm_sampling", "bmc_bias", "bmc_trained", "sample_sizes"),
)
"""The scripts of the gallery by subject: inducing points, low rank, risk bounds, direct loss and Monte Carlo."""

STORIES = (
    (
        "Every family of bounds beside trained models of real data (all five papers)",
        "every_family",
        "Markers are truths, lines what theory proves: every truth that a theorem is about is below its "
        "bound; how far below tells what a bound is worth, from a factor of two given y to nothing at all for "
        "Fourier features of sixteen inputs.",
    ),
    (
        "The Rényi GP, and rates for its divergence (Yue & Kontar)",
        "bound_vs_trained",
        "What a trained sparse GP loses against the exact posterior (brackets of the truth) lies "
        "between what no choice of M inducing variables can beat (grey) and what the theorems "
        "promise for k-DPPs (lines), and both fall as M grows.",
    ),
    (
        "The order of the Rényi GP (Yue & Kontar, the earlier paper)",
        "which_order",
        "At fixed parameters the error of the mean falls in the order α wherever new rows are like "
        "the old ones; trained models have their least error in between, because α also changes the "
        "noise that is trained.",
    ),
    (
        "Low-rank GPs (Daskalakis, Dellaportas & Panos)",
        "trained_divergence",
        "Trained Mercer features come to the exact GP as the rank grows, below their bounds; for "
        "Fourier features the theorem's bound is finite only far beyond the ranks at which they are "
        "good.",
    ),
    (
        "PAC-GP (Reeb, Doerr, Gerwinn & Rakitsch)",
        "pac_gp_housing",
        "Training the bound gives a smaller bound B at every accuracy ε than the full GP has, by a "
        "smaller KL/N; its test risk is a little larger. The paper's numbers are the diamonds.",
    ),
    (
        "Direct loss minimisation (Wei, Sheth & Khardon)",
        "dlm_sampling",
        "Ten samples inside the logarithm (bMC-10) train as the exact gradient does on three of "
        "four tables; one sample is enough on abalone alone.",
    ),
)
"""For all papers and for each a title, the script whose picture tells its story, and the story."""

OTHER_NAMES = {"renyi_study": "renyi_boxplots", "structured_bounds": "structured_trained"}
"""The picture of a script that draws several, none of them under the script's name."""


class Order:
    """The key by which sphinx-gallery sorts the scripts of a folder: their place in `ORDER`."""

    def __init__(self, folder: str) -> None:
        """Sphinx-gallery passes the folder."""

    def __call__(self, filename: str) -> int:
        """The place of the script."""
        return ORDER.index(Path(filename).stem)


def copied(scripts: Path, target: Path, pictures: Path, tables: Path) -> str:
    """Copy every script that can be run and has a picture; return the folder of the copies.

    A script can be run if its docstring holds a command.  Its picture is NAME.png in ``pictures``, or in the folder
    ``results`` of the scripts.  A script without a picture has a page in ``tables``, to which the gallery's text links.

    Raises
    ------
    ValueError
        if the scripts with a picture are not those of `ORDER`.
    """
    for folder in (target, tables):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    shown, plain = set(), []
    for script in sorted(scripts.glob("*.py")):
        source = script.read_text(encoding="utf-8")
        words = ast.get_docstring(ast.parse(source))
        if not words or f"python examples/{script.name}" not in words:
            continue
        picture = OTHER_NAMES.get(script.stem, script.stem)
        candidates = [folder / f"{picture}.png" for folder in (pictures, scripts / "results")]
        if found := next((path for path in candidates if path.exists()), None):
            (target / script.name).write_text(_copy(source, words, found, target), encoding="utf-8")
            shown.add(script.stem)
        else:
            (tables / f"{script.stem}.rst").write_text(
                _page(words, script, tables), encoding="utf-8"
            )
            plain.append(script.stem)
    if shown != set(ORDER):
        raise ValueError(
            f"ORDER: expected the scripts with a picture, {sorted(shown)}, got {sorted(ORDER)}"
        )
    links = ", ".join(f":doc:`/{tables.name}/{name}`" for name in plain)
    entries = "\n".join(f"   /{tables.name}/{name}" for name in plain)
    stories = "\n\n".join(_story(*story, target, pictures) for story in STORIES)
    (target / "GALLERY_HEADER.rst").write_text(HEADER % (links, stories, entries), encoding="utf-8")
    return str(target)


def _story(title: str, name: str, words: str, target: Path, pictures: Path) -> str:
    """A figure with its caption, which links the page of the script."""
    folder = pictures if (pictures / f"{name}.png").exists() else target
    return (
        f".. figure:: /{folder.relative_to(target.parent).as_posix()}/{name}.png\n   :alt: {words}\n\n"
        f"   **{title}.** {words} (:doc:`/gallery/{name}`)"
    )


def titled(words: str) -> str:
    """A short title: the first line up to its first stop or bracket.

    >>> titled("The trace (a mean): its law.")
    'The trace'
    >>> titled("Which trace is least?  (Fig. 1)")
    'Which trace is least?'
    >>> titled("Tr(K - Q): its mean.")
    'Tr(K - Q)'
    """
    first = words.splitlines()[0]
    head = re.split(r"[:;]|\s\(|\.(?=\s|$)|(?<=\?)", first, maxsplit=1)[0].strip()
    return head or first


def _page(words: str, script: Path, folder: Path) -> str:
    """The page of a script without a picture: title, text and source."""
    heading = prose(titled(words), links=False)
    body = "\n".join(converted(words.splitlines()))
    source = Path(
        *[".."] * len(folder.relative_to(script.parent.parent).parts), "examples", script.name
    ).as_posix()
    return f"{heading}\n{'=' * max(4, len(heading))}\n\n{body}\n\n.. literalinclude:: {source}\n   :language: python\n"


def _copy(source: str, words: str, picture: Path, folder: Path) -> str:
    title = titled(words)
    heading = prose(title, links=False)
    where = (
        "/" + str(picture.relative_to(folder.parent))
        if picture.is_relative_to(folder.parent)
        else ""
    )
    if not where:
        (folder / picture.name).write_bytes(picture.read_bytes())
        where = f"/{folder.name}/{picture.name}"
    shown = f".. image:: {where}\n   :alt: {title}\n   :class: sphx-glr-single-img\n\n"
    body = "\n".join(converted(words.splitlines()))
    docstring = f'r"""\n{heading}\n{"=" * max(4, len(heading))}\n\n{shown}{body}\n"""\n'
    tree = ast.parse(source)
    rest = source.splitlines(keepends=True)[tree.body[0].end_lineno :]
    return docstring + f"\n# sphinx_gallery_thumbnail_path = {where[1:]!r}\n" + "".join(rest)
