"""Which public names the calls reach, and how often: ``python tests/frozen/compare.py --coverage``."""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from pathlib import Path

from calls import commands, stored, wrong
from language import names
from parts import traces, values

import gpbounds

ROOMS = (
    *("renyi", "kdpp", "lowrank", "sandwich", "pacbayes", "losses", "likelihoods", "montecarlo", "divergences"),
    *("spectra", "kernels", "rates", "plotting", "inputs", "psd", "whitening", "claims", "errors", "reference"),
)
WITHOUT = {
    "gpbounds.NonFinite": "an exception: raised by the wrong calls",
    "gpbounds.NotConverged": "an exception",
    "gpbounds.NotPositiveDefinite": "an exception: raised by the wrong calls",
    "gpbounds.Plan": "a record: returned by the planners",
    "gpbounds.whitening.T": "a type variable",
    "gpbounds.reference": "mpmath: every check of the claims report compares with it",
}
"""Why a name is not called."""
RESULTS = "a record or an abstract class: what calls return or are given is read by its attributes"


def public() -> dict[str, object]:
    """Public names, dotted, of both packages and their rooms; modules without ``__all__``: what they define."""
    names: dict[str, object] = {}
    for name in ("gpbounds", "fitting", "fitting.bounds", *(f"gpbounds.{area}" for area in ROOMS)):
        module = importlib.import_module(name)
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == name]
        for key in getattr(module, "__all__", [key for key in own if not key.startswith("_")]):
            names[f"{name}.{key}"] = getattr(module, key)
    return names


def counted() -> tuple[Counter[str], Counter[str]]:
    """How often each name is called, rightly and wrongly; trainings and stored files count as right calls."""
    right: Counter[str] = Counter()
    for case in values.listed():
        right.update(names(case.expression))
    for expression, _ in (*traces.listed().values(), *stored.models().values()):
        right.update(names(expression))
    for expression in stored.certificates().values():
        right.update(names(expression))
    for name, (_, data) in stored.models().items():
        for _, expression in stored.sayings(Path(), name, data).values():
            right.update(names(expression))
    false: Counter[str] = Counter()
    for case in wrong.refused:
        false.update(names(case.expression))
    return right, false


def main() -> None:
    """Print one line a name; a name is the same thing wherever it can be imported from."""
    right, false = counted()
    things = public()
    called: dict[int, list[int]] = {}
    for counter, place in ((right, 0), (false, 1)):
        for name, count in counter.items():
            owner = things.get(name.rpartition(".")[0])
            value = things.get(name, owner if inspect.isclass(owner) else None)
            if value is not None:
                called.setdefault(id(value), [0, 0])[place] += count
    bare, kinds = [], Counter()
    for name, value in sorted(things.items()):
        good, bad = called.get(id(value), [0, 0])
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "other"
        kinds[kind, bool(good)] += 1
        print(f"{name:<48} {kind:<9} {good:>5} calls {bad:>4} wrong ones")
        if not good:
            why = WITHOUT.get(name) or ("a room" if inspect.ismodule(value) else RESULTS if kind == "class" else "")
            bare.append(f"  {name}: {why or 'NOT CALLED'}")
    methods = Counter({name: count for name, count in right.items() if name not in things})
    print(f"\nmethods and class methods, by the function that made their object ({sum(methods.values())} calls):")
    for name, count in sorted(methods.items()):
        print(f"  {name:<70} {count:>4}")
    print("\nnot called by name:", *bare, sep="\n")
    print(
        f"\n{sum(right.values())} right calls in {len(list(values.listed()))} cases, {len(traces.listed())} trainings "
        f"and {len(stored.models())} stored models; {len(list(wrong.refused))} wrong calls; "
        f"{len(commands.COMMANDS)} commands; gpbounds {gpbounds.__version__}"
    )


if __name__ == "__main__":
    main()
