"""Matplotlib figures of bounds, of divergences that subsets reach, of certificates and of training, from arrays.

The functions return figures; they do not show or save them, and do not change matplotlib's global state.
"""

from gpbounds.plotting.certificates import Labels, Predictions, certificate_page, plot_predictions, plot_terms
from gpbounds.plotting.elements import (
    BLACK,
    BLUE,
    CYCLE,
    FAR,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    STYLES,
    TEXT,
    VERMILLION,
    Band,
    Curve,
    divergence_symbol,
    plot_band,
    plot_curves,
    positive,
)
from gpbounds.plotting.figures import (
    Bracket,
    Range,
    bound_curves,
    bound_vs_empirical,
    bounds_and_evidence,
    sufficient,
    training,
)
from gpbounds.plotting.held_out import Intervals, Probabilities, intervals_page, labels_page, targets_page
from gpbounds.plotting.stacks import Stack, Wording

__all__ = [
    "BLACK",
    "BLUE",
    "CYCLE",
    "FAR",
    "GREEN",
    "ORANGE",
    "PURPLE",
    "SKY",
    "STYLES",
    "TEXT",
    "VERMILLION",
    "Band",
    "Bracket",
    "Curve",
    "Intervals",
    "Labels",
    "Predictions",
    "Probabilities",
    "Range",
    "Stack",
    "Wording",
    "bound_curves",
    "bound_vs_empirical",
    "bounds_and_evidence",
    "certificate_page",
    "divergence_symbol",
    "intervals_page",
    "labels_page",
    "plot_band",
    "plot_curves",
    "plot_predictions",
    "plot_terms",
    "positive",
    "sufficient",
    "targets_page",
    "training",
]
