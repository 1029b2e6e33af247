"""The site: ``sphinx-build -W docs docs/_build/html``, without a network."""

from __future__ import annotations

import sys
from inspect import ismodule
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

from copies import copy_all  # noqa: E402
from gallery import copied  # noqa: E402

import fitting  # noqa: E402
import gpbounds  # noqa: E402

copy_all(HERE.parent, HERE)

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
]
exclude_patterns = ["_build", "inventories/README.md", "gallery_source"]
templates_path = ["templates"]
default_role = "py:obj"
highlight_language = "text"
myst_heading_anchors = 3

autosummary_ignore_module_all = False  # a package documents the names of its __all__
# autosummary does not see names that are loaded on first use.
autosummary_context = {
    "lazy": {
        "gpbounds": [name for name in gpbounds.__all__ if not ismodule(getattr(gpbounds, name))],
        "fitting": fitting.__all__,
    }
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

sphinx_gallery_conf = {
    "examples_dirs": copied(HERE.parent / "examples", HERE / "gallery_source", HERE / "pictures"),
    "gallery_dirs": "gallery",
    "plot_gallery": False,  # scripts are shown with committed pictures; some of them take hours
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "backreferences_dir": None,
}

html_theme = "pydata_sphinx_theme"
html_title = "gpbounds"
html_theme_options = {
    "show_prev_next": False,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# A tree of all pages on each of 300 pages takes minutes to build; breadcrumbs lead back from these.
html_sidebars = {"reference/generated/*": [], "gallery/*": []}
html_show_sourcelink = False
