"""Mutation testing by hand or once a week: do the tests notice when a bound is 0.1 % too small, or a rounding turned?

    python verification/mutants.py                      # everything not tried yet; hours
    python verification/mutants.py --list --hand        # what would be tried
    python verification/mutants.py --module gpbounds/rates/forms.py
    python verification/mutants.py --rerun-survivors    # after a check was written

It needs the package coverage beside what the tests need.  The first run measures which test runs which line.  Verdicts
are kept in ``.mutation/`` and are valid as long as the mutant's line and function read the same; ``--again`` tries
anew.  ``--score`` stores the counts in ``verification/mutants.json``, which the claims report prints.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from mutation import choosing, results, score, tree
from mutation.operators import Mutant
from mutation.reach import Sources
from mutation.touching import Touching
from mutation.trial import Verdict, Workplace
from tqdm import tqdm


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutants, try none")
    parser.add_argument("--module", default="", metavar="PATH", help="files that begin with this, as gpbounds/rates")
    parser.add_argument("--hand", action="store_true", help="those of verification/mutants.toml alone, no sample")
    parser.add_argument("--only", nargs="+", default=[], metavar="KEY", help="these alone; tried anew")
    parser.add_argument("--rerun-survivors", action="store_true", help="only those that survived, anew")
    parser.add_argument("--again", action="store_true", help="try those with a verdict anew, too")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument(
        "--density", type=float, default=0.4, help="a module's sample over √(its mutants); default: 0.4"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="a mutant: the slowest tests are left out; --rerun-survivors without it tries the rest",
    )
    parser.add_argument("--workers", type=int, default=2, help="how many mutants are tried at a time (default: 2)")
    parser.add_argument("--work", type=Path, default=tree.ROOT / ".mutation", metavar="DIR", help="what is kept")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="write survivors there as they come")
    parser.add_argument("--score", action="store_true", help="store the counts for the claims report")
    return parser.parse_args()


def wanted(mutant: Mutant, options: argparse.Namespace, settings: choosing.Settings, store: results.Store) -> bool:
    """Whether this mutant is to be tried now."""
    if options.only:
        return mutant.key in options.only
    if settings.is_equivalent(mutant):
        return False
    noticed = store.noticed(mutant)
    return noticed is False if options.rerun_survivors else options.again or noticed is None


def run(mutants: list[Mutant], options: argparse.Namespace, settings: choosing.Settings, store: results.Store) -> None:
    """Try the mutants, several at a time, and keep what becomes of each."""
    touching = Touching(options.work / "coverage")
    touching.measure(options.workers)
    for test in touching.failing():
        print(f"fails without any mutant and is left out: {test}")
    known = {file: (tree.ROOT / file).read_bytes() for file in map(str, tree.files()) if file.endswith(".py")}
    packages = {file: source for file, source in known.items() if file.startswith(tree.PACKAGES)}
    sources, commit = Sources(packages), tree.commit()
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
                            file.write(results.told(entry) + "\n")
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
        print(results.told(entry))
    counts = results.counted(settings, store, mutants)
    print(results.table(counts))
    if options.score:
        text = json.dumps(score.record(counts, store.commits(mutants), options.seed, options.density), indent=1)
        score.SCORE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
