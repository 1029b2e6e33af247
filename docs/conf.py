"""The site: ``sphinx-build -W docs docs/_build/html``, without a network."""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from shutil import rmtree
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

from copies import copy_all  # noqa: E402
from gallery import copied  # noqa: E402
from parsers import write_pages  # noqa: E402

import fitting.features  # noqa: E402
import gpbounds  # noqa: E402

copy_all(HERE.parent, HERE)
write_pages(HERE / "commands")

project = "gpbounds"
author = "The gpbounds developers"
version = release = gpbounds.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "plain_text",
    "claims",
    "combinations",
    "commands",
]
exclude_patterns = ["_build", "pictures/README.md", "gallery_source"]
templates_path = ["templates"]
default_role = "py:obj"
highlight_language = "text"
myst_heading_anchors = 3

autosummary_ignore_module_all = False  # a package documents the names of its __all__
# A name of `gpbounds` has its page there; the package that defines it links to that page.
TOP = [name for name in gpbounds.__all__ if not ismodule(getattr(gpbounds, name))]
PACKAGES = [f"gpbounds.{name}" for name in gpbounds.__all__ if ismodule(getattr(gpbounds, name))]
public = {name: getattr(import_module(name), "__all__", []) for name in PACKAGES}
autosummary_context = {
    "own": {
        "gpbounds": TOP,  # autosummary does not see names that are loaded on first use
        "fitting": fitting.__all__,
        "fitting.features": fitting.features.__all__,
        **{
            package: [name for name in names if name not in TOP]
            for package, names in public.items()
        },
    },
    "shared": {
        package: [name for name in names if name in TOP] for package, names in public.items()
    },
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings state types with shapes and units
numpydoc_show_class_members = False  # the page of a class shows its members

INVENTORIES = {
    "numpy": "https://numpy.org/doc/stable/",
    "matplotlib": "https://matplotlib.org/stable/",
    "sklearn": "https://scikit-learn.org/stable/",
}
intersphinx_mapping = {name: (url, f"inventories/{name}.txt") for name, url in INVENTORIES.items()}

(HERE / "sg_execution_times.rst").unlink(missing_ok=True)
rmtree(HERE / "gallery", ignore_errors=True)  # sphinx-gallery keeps pages of scripts that are gone
sphinx_gallery_conf = {
    "examples_dirs": copied(
        HERE.parent / "examples", HERE / "gallery_source", HERE / "pictures", HERE / "scripts"
    ),
    "gallery_dirs": "gallery",
    "plot_gallery": False,  # scripts are shown with committed pictures; some of them take hours
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "backreferences_dir": None,
    "within_subsection_order": "gallery.Order",
}

html_theme = "pydata_sphinx_theme"
html_title = "gpbounds"
html_theme_options = {
    "show_prev_next": False,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 5,
}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "static" / "scorer.js")
# A tree of all pages on each of 300 pages takes minutes to build; breadcrumbs lead back from these.
FOLDERS = ("tutorials", "how_to", "reference/generated", "gallery", "scripts", "copies", "commands")
PLAIN = (
    *(f"{folder}/*" for folder in FOLDERS),
    "claims",
    "theorems",
    "certified",
    "kernels",
    "scale",
)
html_sidebars = {page: [] for page in PLAIN}
smartquotes = False  # they turn the primes of formulas into quotation marks
html_show_sourcelink = False


def of_scikit_learn(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn adds to estimators: its texts refer to its own site."""
    return (
        True
        if name.endswith("_request") or str(getattr(member, "__module__", "")).startswith("sklearn")
        else None
    )


def setup(app: Any) -> None:
    """Connect the function above."""
    app.connect("autodoc-skip-member", of_scikit_learn)
