"""Certified risk against the number of inducing points of PAC-SGP, VFE, FITC (paper 002, Tables 2, 3, Fig. 3).

    python examples/pac_sgp_inducing.py [--quick] [--inducing 100,200,300,400,500] [--ard yes no] [--seeds 1] [--resume]
    python examples/pac_sgp_inducing.py --loss exponential --inducing 500 --ard yes          # Table 3
    python examples/pac_sgp_inducing.py --data pol.csv.gz --out examples/output/pac_sgp_pol.png   # another data set

The data are kin40k, 40 000 rows with 8 inputs, or any CSV file; a fifth of the rows are for tests.  The paper's numbers
stand beside those of kin40k, pol (15 000 rows, 26 inputs) and sarcos (48 933 rows, 21 inputs).  Squared exponential
with a lengthscale for each input (ARD) or one for all; training starts at variance, lengthscale and noise 1, with
inducing points at k-means centres, which are learned; epsilon = 0.6, delta = 0.01; each ln theta is rounded to one of
1201 values in [-6, 6].  kl-PAC-SGP minimises the bound itself, sqrt-PAC-SGP Pinsker's bound, both with the posterior of
FITC; VFE and FITC maximise their own objectives within the same box.  All are certified in the same way, at the rounded
theta.

"paper": inputs and target are standardised by all rows; the certificates are *not rigorous* (P-45), like the numbers in
the paper.  "rigorous": the constants come from a tenth of the rows, which are not used otherwise.  Choosing between ARD
and one lengthscale after seeing the results costs ln 2; choosing M costs nothing (P-45, P-49).

One model at M = 500 takes minutes; all models with ten seeds take days.  --resume keeps the rows that the CSV file
already contains, so that a long study may be interrupted; the file may hold several data sets, losses and numbers of
rows, of which tables and picture show those of the call.  B in the table is computed with 2 sqrt(N), as in the paper.

--loss exponential trains and certifies 1 - exp(-(y - f)^2/epsilon^2), as Table 3.  B, B_Pin and R_S train are those of
this loss; "test risk" is that of the band loss, as in Table 3: its VFE and FITC have the test risks of Table 2.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pac_settings import DELTA, PAPER, VARIANTS, Part, Score, figures, load, save, split, table
from pac_tables import FIGURES, HEADS, beside, markdown, mean_and_error, printed
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import SparseGP, SparsePACGP, certify
from gpbounds import SquaredExponential, validation
from gpbounds.cli import options
from gpbounds.files import replacing
from gpbounds.pacbayes import Certificate, HyperGrid
from gpbounds.plotting import BLACK, BLUE, GREEN, SKY, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline

EPSILON = 0.6
SIZES = (100, 200, 300, 400, 500)
METHODS = {
    "kl-PAC-SGP": ("kl", BLUE),
    "sqrt-PAC-SGP": ("pinsker", SKY),
    "VFE": ("vfe", VERMILLION),
    "FITC": ("fitc", GREEN),
}
LEAST_NOISE = 1e-6
"""Smallest σ², which FITC drives towards 0; the published models had a softplus with this floor."""

PRINTED = {
    ("kin40k", False, "kl-PAC-SGP"): ".154 .000 .219 .000 .045 .000 .053 .000 .059 .001 .059 .000 .262 .014",
    ("kin40k", False, "sqrt-PAC-SGP"): ".162 .001 .207 .001 .071 .000 .079 .001 .082 .001 .036 .000 .658 .046",
    ("kin40k", False, "VFE"): ".238 .000 .341 .000 .014 .000 .019 .000 .030 .000 .212 .000 .040 .000",
    ("kin40k", False, "FITC"): ".302 .001 .359 .001 .066 .001 .068 .001 .082 .003 .171 .002 .000 .000",
    ("kin40k", True, "kl-PAC-SGP"): ".115 .000 .190 .000 .028 .000 .034 .000 .049 .000 .050 .000 .254 .012",
    ("kin40k", True, "sqrt-PAC-SGP"): ".126 .000 .175 .000 .054 .000 .059 .001 .071 .000 .027 .000 .814 .013",
    ("kin40k", True, "VFE"): ".212 .000 .327 .000 .007 .000 .011 .000 .024 .000 .202 .000 .031 .000",
    ("kin40k", True, "FITC"): ".277 .000 .347 .000 .046 .000 .048 .000 .053 .001 .179 .000 .000 .000",
    ("pol", False, "kl-PAC-SGP"): ".217 .001 .252 .000 .106 .001 .115 .001 .114 .001 .041 .000 .316 .015",
    ("pol", False, "sqrt-PAC-SGP"): ".221 .001 .248 .000 .126 .001 .133 .001 .124 .001 .028 .000 .626 .025",
    ("pol", False, "VFE"): ".257 .000 .312 .000 .071 .000 .081 .001 .090 .001 .114 .000 .102 .000",
    ("pol", False, "FITC"): ".359 .001 .384 .001 .149 .001 .160 .001 .092 .001 .109 .002 .000 .000",
    ("pol", True, "kl-PAC-SGP"): ".083 .000 .172 .000 .011 .000 .015 .000 .036 .000 .035 .000 .187 .003",
    ("pol", True, "sqrt-PAC-SGP"): ".094 .000 .159 .000 .029 .000 .032 .000 .044 .000 .017 .000 .825 .011",
    ("pol", True, "VFE"): ".198 .000 .324 .000 .002 .000 .006 .000 .015 .000 .190 .000 .016 .000",
    ("pol", True, "FITC"): ".247 .001 .333 .001 .029 .000 .032 .001 .027 .000 .168 .001 .000 .000",
    ("sarcos", False, "kl-PAC-SGP"): ".031 .000 .083 .000 .009 .000 .010 .000 .033 .000 .010 .000 .526 .004",
    ("sarcos", False, "sqrt-PAC-SGP"): ".038 .000 .066 .000 .023 .000 .023 .000 .044 .000 .003 .000 3.600 .006",
    ("sarcos", False, "VFE"): ".097 .000 .215 .000 .002 .000 .003 .000 .017 .000 .090 .000 .019 .000",
    ("sarcos", False, "FITC"): ".116 .000 .211 .000 .014 .000 .015 .000 .019 .000 .076 .000 .000 .000",
    ("sarcos", True, "kl-PAC-SGP"): ".031 .000 .095 .000 .005 .000 .007 .000 .029 .000 .012 .000 .389 .002",
    ("sarcos", True, "sqrt-PAC-SGP"): ".039 .000 .079 .000 .018 .000 .018 .000 .040 .000 .003 .000 2.682 .009",
    ("sarcos", True, "VFE"): ".092 .000 .212 .000 .002 .000 .002 .000 .016 .000 .084 .000 .017 .000",
    ("sarcos", True, "FITC"): ".115 .000 .215 .000 .012 .000 .012 .000 .017 .000 .079 .000 .000 .000",
}
"""Table 2 of the paper, M = 500, by data set, ARD and method: mean and standard error over ten splits of FIGURES."""

PRINTED_EXPONENTIAL = {
    ("kin40k", True, "kl-PAC-SGP"): ".260 .001 .290 .000 .127 .001 .039 .001 .055 .000 .051 .000 .124 .014",
    ("kin40k", True, "sqrt-PAC-SGP"): ".262 .001 .287 .001 .142 .001 .048 .001 .061 .000 .040 .000 .232 .017",
    ("kin40k", True, "VFE"): ".347 .000 .396 .000 .076 .000 .011 .000 .024 .000 .202 .000 .031 .000",
    ("kin40k", True, "FITC"): ".379 .000 .413 .000 .112 .000 .048 .000 .053 .001 .179 .001 .000 .000",
    ("pol", True, "kl-PAC-SGP"): ".199 .000 .247 .000 .077 .000 .019 .000 .027 .000 .041 .000 .216 .003",
    ("pol", True, "sqrt-PAC-SGP"): ".208 .001 .245 .000 .100 .001 .031 .001 .040 .001 .025 .000 .461 .006",
    ("pol", True, "VFE"): ".288 .000 .361 .000 .041 .000 .006 .000 .015 .000 .189 .000 .016 .000",
    ("pol", True, "FITC"): ".345 .001 .390 .001 .085 .001 .030 .001 .027 .000 .169 .001 .000 .000",
    ("sarcos", False, "kl-PAC-SGP"): ".116 .000 .144 .000 .073 .000 .012 .000 .032 .000 .009 .000 .213 .001",
    ("sarcos", False, "sqrt-PAC-SGP"): ".119 .000 .139 .000 .086 .000 .017 .000 .039 .000 .005 .000 .611 .002",
    ("sarcos", False, "VFE"): ".190 .000 .259 .000 .047 .000 .003 .000 .017 .000 .090 .000 .019 .000",
    ("sarcos", False, "FITC"): ".227 .000 .276 .000 .079 .000 .015 .000 .019 .000 .077 .000 .000 .000",
}
"""Table 3, for the exponential loss; the paper has ARD only, and for sarcos one lengthscale."""

LOSSES = {"band": PRINTED, "exponential": PRINTED_EXPONENTIAL}
SHAPES = {"kin40k": (40_000, 8), "pol": (15_000, 26), "sarcos": (48_933, 21)}
"""Rows and inputs of the paper's data sets."""


@dataclass(frozen=True)
class Study:
    """What the figures are about: the data set, the loss, and whether the paper has printed the same."""

    data: str
    loss: str
    full: bool

    def printed(self, ard: bool, method: str) -> str | None:
        """The line of the paper's table for M = 500."""
        return LOSSES[self.loss].get((self.data, ard, method)) if self.full else None


def trained(
    method: str, part: Part, M: int, ard: bool, steps: int, seed: int, bar: bool, loss: str = "band"
) -> tuple[Certificate, Any]:
    """The certificate and the fitted model."""
    D = part.X.shape[1]
    grid = HyperGrid.ard(D) if ard else HyperGrid.shared()
    kernel = SquaredExponential(1.0, np.ones(D) if ard else 1.0)
    shared: dict[str, Any] = {"kernel": kernel, "noise": 1.0}
    shared |= {"n_inducing": M, "inducing": "kmeans", "max_iter": steps, "random_state": seed, "progress": bar}
    rest: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "grid": grid, "scaling": (part.inputs, part.outputs)}
    rest |= {"nonrigorous": not part.rigorous, "loss": loss}
    kind = METHODS[method][0]
    if kind in ("vfe", "fitc"):
        box = {name: (math.exp(-6.0), math.exp(6.0)) for name in kernel.parameter_names} | {"noise": (LEAST_NOISE, 1e6)}
        model: Any = SparseGP(kind, **shared, limits=box).fit(*part.scaled)
        return certify(model, part.X, part.y, **rest), model
    model = SparsePACGP(posterior="fitc", relaxation=kind, fewer=False, **shared, **rest).fit(part.X, part.y)
    return model.certificate_, model


def score(
    study: Study, variant: str, method: str, part: Part, M: int, ard: bool, steps: int, seed: int, bar: bool = False
) -> Score:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table contains how training stopped
        certificate, model = trained(method, part, M, ard, steps, seed, bar, study.loss)
    spent = time.perf_counter() - began
    about: dict[str, Any] = {"variant": variant, "method": method, "ard": ard, "M": M, "seed": seed, "N": len(part.y)}
    ended: dict[str, Any] = {"steps": model.n_iter_, "stopped": model.stop_reason_, "seconds": spent}
    return Score(data=study.data, epsilon=EPSILON, **about, **figures(certificate, part), **ended)


def chosen(scores: Sequence[Score], variant: str, ard: bool, method: str) -> list[Score]:
    return [s for s in scores if (s.variant, s.ard, s.method) == (variant, ard, method)]


def groups(scores: Sequence[Score], variant: str, study: Study) -> list[Any]:
    """Rows of the table; with all rows used, those of the variant "paper" with M = 500 include the printed numbers."""
    rows = []
    for ard in (True, False):
        for M in sorted({s.M for s in scores}):
            for method in METHODS:
                mine = [s for s in chosen(scores, variant, ard, method) if s.M == M]
                line = study.printed(ard, method) if M == 500 and variant == PAPER else None
                if mine:
                    name = f"{'ARD' if ard else 'one ℓ'}, M = {M}, {method}"
                    rows.append((name, mine, printed(line) if line else None))
    return rows


def panel(ax: Any, scores: Sequence[Score], variant: str, ard: bool, name: str, study: Study) -> None:
    top = 0.0
    for method, (_, color) in METHODS.items():
        mine = chosen(scores, variant, ard, method)
        sizes = sorted({s.M for s in mine})
        if not sizes:
            continue
        draws = [[getattr(s, "B_maurer" if name == "B" else name) for s in mine if s.M == M] for M in sizes]
        middle, error = np.array([mean_and_error(draw) for draw in draws]).T
        style: dict[str, Any] = {"marker": "o", "markersize": 4.0, "linewidth": 1.6, "capsize": 2}
        ax.errorbar(sizes, middle, np.nan_to_num(error), color=color, label=method, **style)
        top = max(top, middle.max())
        line = study.printed(ard, method) if variant == PAPER else None
        if line:
            theirs, _ = printed(line)[name]
            ax.plot(515, theirs, "D", color=color, markersize=5.0, markerfacecolor="white", clip_on=False)
            top = max(top, theirs)
    ax.set_ylim(0.0, 1.1 * top)
    ax.set_xlabel("M", fontsize=TEXT)
    ax.tick_params(labelsize=TEXT - 1)
    ax.grid(True, axis="y", color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(False)


def picture(scores: Sequence[Score], study: Study) -> Any:
    from matplotlib.lines import Line2D

    shown = [name for name in FIGURES if name not in ("B_pin", "noise")]
    rows = [(v, a) for v in VARIANTS for a in (True, False) if any((s.variant, s.ard) == (v, a) for s in scores)]
    page = figure(3.2 * len(shown), 1.0 + 2.9 * len(rows))
    cells = {(s.variant, s.ard, s.method, s.M): 0 for s in scores}
    for score in scores:
        cells[score.variant, score.ard, score.method, score.M] += 1
    least, most, N = min(cells.values()), max(cells.values()), sorted({s.N for s in scores}, reverse=True)
    splits = f"{least} to {most} splits" if least < most else f"{most} split{'s' * (most > 1)}"
    headline(
        page,
        f"{study.data}, {study.loss} loss: bound, risks and complexity against the number M of inducing points "
        f"({splits}, N = {' and '.join(map(str, N))}, ε = {EPSILON:g}, δ = {DELTA:g}); bars: standard errors",
    )
    grid = page.add_gridspec(len(rows), len(shown))
    for r, (variant, ard) in enumerate(rows):
        for i, name in enumerate(shown):
            ax = page.add_subplot(grid[r, i])
            panel(ax, scores, variant, ard, name, study)
            ax.set_title(HEADS[FIGURES.index(name)], fontsize=TEXT, loc="right")
            if i == 0:
                kind = "a lengthscale per input" if ard else "one lengthscale"
                ax.set_ylabel(f"{kind}\n{variant}" + (": not rigorous" if variant == PAPER else ""), fontsize=TEXT)
    handles = [
        Line2D([], [], color=color, marker="o", markersize=4.0, label=method)
        for method, (_, color) in METHODS.items()
        if any(s.method == method for s in scores)
    ]
    if study.full:
        handles.append(
            Line2D(
                [], [], color=BLACK, marker="D", ls="", markersize=5.0, markerfacecolor="white", label="paper, M = 500"
            )
        )
    page.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=TEXT, frameon=False)
    return page


def named(path: Path) -> str:
    """The name of the data set in a file: the file's, without folder and endings."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--data", type=Path, metavar="FILE", help="CSV with the target in the last column (default: kin40k.csv.gz)"
    )
    parser.add_argument("--rows", type=options.whole, help="number of random rows (default: all)")
    parser.add_argument(
        "--inducing", type=options.wholes, default=list(SIZES), metavar="M[,M...]", help="default: 100,200,300,400,500"
    )
    parser.add_argument(
        "--ard", nargs="+", choices=("yes", "no"), default=["yes", "no"], help="a lengthscale per input (default: both)"
    )
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS), help="default: all")
    parser.add_argument(
        "--variants", nargs="+", choices=tuple(VARIANTS), default=[PAPER], help="scaling (default %(default)s)"
    )
    parser.add_argument("--loss", choices=tuple(LOSSES), default="band", help="default %(default)s")
    parser.add_argument("--seeds", type=options.whole, default=1, help="number of splits (default %(default)s)")
    parser.add_argument(
        "--steps", type=options.whole, default=1000, help="largest number of steps of L-BFGS-B (default %(default)s)"
    )
    parser.add_argument("--resume", action="store_true", help="keep the rows of the CSV file, and add the others")
    parser.add_argument("--quick", action="store_true", help="1000 rows, M = 10, 20, ARD, 40 steps")
    parser.add_argument(
        "--out",
        type=options.picture_file,
        default=Path("examples/output/pac_sgp_inducing.png"),
        help="picture; CSV and Markdown beside it (default %(default)s)",
    )
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.inducing, args.ard, args.steps, args.seeds = 1000, [10, 20], ["yes"], 40, 1
    try:
        for name, value in (("--seeds", args.seeds), ("--steps", args.steps), ("--inducing", min(args.inducing))):
            validation.count(name, value)
        if args.rows is not None:
            validation.count("--rows", args.rows, 10 * max(args.inducing))
        X, y = table(args.data, "kin40k")
    except (ValueError, OSError) as error:
        parser.exit(2, f"pac_sgp_inducing.py: {error}\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    sheet = args.out.with_suffix(".csv")
    began, scores = time.perf_counter(), load(sheet) if args.resume else []
    done = {s.key for s in scores}
    kinds = [(M, a == "yes", m) for M in args.inducing for a in args.ard for m in args.methods]
    work = [(v, s, *kind) for v in args.variants for s in range(args.seeds) for kind in kinds]
    name = "kin40k" if args.data is None else named(args.data)
    study = Study(name, args.loss, args.rows is None and X.shape == SHAPES.get(name))
    bar, sizes = tqdm(work, unit="model"), set()
    for variant, seed, M, ard, method in bar:
        bar.set_description(f"{variant}, split {seed}, M = {M}, {'ARD' if ard else 'one lengthscale'}, {method}")
        part = split(X, y, variant, seed, args.rows)
        sizes.add(len(part.y))
        if (study.data, study.loss, variant, method, ard, M, EPSILON, seed, len(part.y)) not in done:
            scores.append(score(study, variant, method, part, M, ard, args.steps, seed, bar=len(part.y) > 10_000))
            save(sheet, scores)
    shown = [s for s in scores if (s.data, s.loss) == (study.data, study.loss) and s.N in sizes]
    picture(shown, study).savefig(args.out)
    text = []
    for variant in sorted({s.variant for s in shown}):
        rows = groups(shown, variant, study)
        print(f"\n{VARIANTS[variant][0].upper()}{VARIANTS[variant][1:]}\n{beside(rows)}")
        text.append(f"{VARIANTS[variant]}\n\n{markdown(rows)}\n")
    with replacing(args.out.with_suffix(".md")) as file:
        file.write("\n".join(text))
    if not study.full:
        print("The rows differ from the paper's: there is nothing to compare with.")
    print(f"{len(shown)} models, {time.perf_counter() - began:.0f} s; {args.out}, with .csv and .md beside it")


if __name__ == "__main__":
    main()
