"""What has been renamed since the state was frozen: the file to edit after a renaming, beside `calls/`.

The calls name functions, arguments, attributes and classes as they were on the day the numbers were stored.  These
tables hold today's names; an empty table means that nothing was renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PLACES: dict[str, str] = {"gpbounds.psd": "gpbounds.linalg.psd"}
"""Dotted name then: dotted name now; a whole package, too: {"gpbounds.renyi": "gpbounds.evidence"}."""

Arguments = Mapping[str, str] | Callable[[dict[str, Any]], dict[str, Any]]


def _with_target(arguments: dict[str, Any]) -> dict[str, Any]:
    """Low-rank planners took ``eps``, nats per datum; they take ``target``, nats for all N data."""
    renamed = {{"method": "rule"}.get(key, key): value for key, value in arguments.items() if key != "eps"}
    return {**renamed, "target": arguments["eps"] * arguments["N"]} if "eps" in arguments else renamed


def _without_jitter(arguments: dict[str, Any]) -> dict[str, Any]:
    """The default jitter was 0; it is "auto"."""
    return {"jitter": 0.0, **arguments}


ARGUMENTS: dict[str, Arguments] = {
    "gpbounds.renyi.elbo": _without_jitter,
    "gpbounds.renyi.nystrom": _without_jitter,
    "gpbounds.whitening.inducing": _without_jitter,
    "gpbounds.whitening.whiten": _without_jitter,
    "gpbounds.lowrank.kappa": {"delta": "Delta"},
    "gpbounds.lowrank.kappa_inverse": {"eps": "divergence"},
    "gpbounds.lowrank.kl_from_excess": {"form": "rule"},
    "gpbounds.lowrank.kl_from_traces": {"form": "rule"},
    "gpbounds.lowrank.mercer_kl": {"r": "rank"},
    "gpbounds.lowrank.mercer_rank": _with_target,
    "gpbounds.lowrank.fourier_rank": _with_target,
    "gpbounds.lowrank.FourierFeatures": {"random_state": "rng"},
    "gpbounds.lowrank.LeverageFourierFeatures": {"random_state": "rng"},
    "fitting.PACGP": {"objective": "relaxation"},
    "fitting.SparsePACGP": {"form": "posterior", "objective": "relaxation"},
    "fitting.bounds.Target": {"objective": "relaxation"},
    "fitting.bounds.Target.terms": {"found": "evaluation"},
    "fitting.bounds.free_bound": {"objective": "relaxation"},
    "fitting.bounds.risk_bound": {"objective": "relaxation"},
    "gpbounds.divergences.collapsed_posterior": {"alpha": "power"},
    "gpbounds.renyi.predict": lambda arguments: {**arguments, "noisy": True},
    "gpbounds.pacbayes.Sparse": {"alpha": "power"},
}
"""Dotted name (or "Class.method" as the calls write it) then: {argument then: argument now}, or a function of all
keyword arguments where more than a name has changed."""

ATTRIBUTES: dict[str, str] = {}
"""Attribute or method then: now, for what is read from results: {"gradient.kernel": "slopes.kernel"}."""

CLASSES: dict[str, str] = {}
"""Class of a result now: class then, where it was renamed: {"Evidence": "Bound"}."""
