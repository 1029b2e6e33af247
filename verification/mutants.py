"""Mutation testing: do the tests notice a bound that is 0.1 % too small, or a rounding in the wrong direction?

    python verification/mutants.py                      # all mutants without a verdict; takes hours
    python verification/mutants.py --list --hand        # list the selected mutants
    python verification/mutants.py --module gpbounds/rates/one_draw.py
    python verification/mutants.py --rerun-survivors    # after you added a check

It needs a system with fork, and the package coverage in addition to the test requirements.
The first run measures which test runs which line.
``.mutation/`` stores the verdicts; a verdict is valid while the mutant's line and function do not change, and
``--again`` ignores it.  ``--score`` stores the counts in ``verification/mutants.json`` for the claims report.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

import history
from mutation import choosing, results, score, tree
from mutation.operators import Mutant
from mutation.reach import Sources
from mutation.touching import Touching
from mutation.trial import Verdict, Workplace
from tqdm import tqdm

from gpbounds.files import replacing


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutants without trying them")
    parser.add_argument(
        "--module",
        default="",
        metavar="PATH",
        help="only files whose path begins with PATH, for example gpbounds/rates",
    )
    parser.add_argument("--hand", action="store_true", help="only the mutants of verification/mutants.toml, no sample")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="KEY", help="only these mutants, ignoring their verdicts"
    )
    parser.add_argument("--rerun-survivors", action="store_true", help="try only the surviving mutants again")
    parser.add_argument("--again", action="store_true", help="also try mutants that have a verdict")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument(
        "--density",
        type=float,
        default=0.4,
        help="sample size of a module divided by √(number of its mutants) (default: 0.4)",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="time limit per mutant: the slowest tests are omitted; --rerun-survivors without --budget runs them",
    )
    parser.add_argument("--workers", type=int, default=2, help="number of mutants tried in parallel (default: 2)")
    parser.add_argument(
        "--work", type=Path, default=tree.ROOT / ".mutation", metavar="DIR", help="folder for verdicts and coverage"
    )
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="append each survivor to FILE when it is known")
    parser.add_argument("--score", action="store_true", help="store the counts for the claims report")
    return parser.parse_args()


def wanted(mutant: Mutant, options: argparse.Namespace, settings: choosing.Settings, store: results.Store) -> bool:
    """Whether to try this mutant now."""
    if options.only:
        return mutant.key in options.only
    if settings.is_equivalent(mutant):
        return False
    noticed = store.noticed(mutant)
    return noticed is False if options.rerun_survivors else options.again or noticed is None


def run(mutants: list[Mutant], options: argparse.Namespace, settings: choosing.Settings, store: results.Store) -> None:
    """Try the mutants, several in parallel, and store each verdict."""
    touching = Touching(options.work / "coverage")
    touching.measure(options.workers)
    for test in touching.failing():
        print(f"omitted, because it fails without any mutant: {test}")
    contents = {file: (tree.ROOT / file).read_bytes() for file in map(str, tree.files()) if file.endswith(".py")}
    packages = {file: source for file, source in contents.items() if file.startswith(tree.PACKAGES)}
    sources, commit = Sources(packages), history.commit()
    places: queue.SimpleQueue[Workplace] = queue.SimpleQueue()
    for number in range(options.workers):
        places.put(Workplace(options.work / f"worker{number}"))

    def trial(mutant: Mutant, seconds: dict[str, float]) -> Verdict:
        place = places.get()
        try:
            return place.try_out(
                mutant,
                seconds,
                touching.nearest(seconds, sources.public(mutant.file)),
                {test: settings.is_example(test) for test in seconds},
                options.budget,
            )
        finally:
            places.put(place)

    with ThreadPoolExecutor(options.workers) as pool:
        running: dict[Future[Verdict], Mutant] = {}
        try:
            for mutant in mutants:
                spots = sources.spots(mutant, packages[mutant.file])
                running[pool.submit(trial, mutant, touching.tests(spots))] = mutant
            bar = tqdm(as_completed(running), total=len(running), desc="mutants", unit="mutant")
            alive = 0
            for done in bar:
                entry = store.add(running[done], done.result(), commit)
                if entry["verdict"] not in results.NOTICED:
                    alive += 1
                    bar.set_postfix(survived=alive)
                    if options.survivors:
                        with options.survivors.open("a", encoding="utf-8") as file:
                            file.write(results.description(entry) + "\n")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def main() -> None:
    options = arguments()
    settings = choosing.Settings.read()
    options.work.mkdir(parents=True, exist_ok=True)
    store = results.Store(options.work / "verdicts.jsonl")
    mutants = list(choosing.chosen(settings, options.module, options.seed, options.density, options.hand))
    ask = [mutant for mutant in mutants if wanted(mutant, options, settings, store)]
    if options.list:
        for m in ask:
            print(f"{m.key} {m.file}:{m.line} {m.scope} ({m.operator})\n  - {m.before}\n  + {m.after}")
        print(f"{len(ask)} of {len(mutants)} mutants")
        return
    if ask:
        run(ask, options, settings, store)
    for entry in results.survivors(settings, store, mutants):
        print(results.description(entry))
    counts = results.counted(settings, store, mutants)
    print(results.table(counts))
    if options.score:
        text = json.dumps(score.record(counts, store.commits(mutants), options.seed, options.density), indent=1)
        with replacing(score.SCORE) as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
