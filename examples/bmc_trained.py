"""How often does biased Monte Carlo (bMC) miss its tolerance on a trained model?  (Corollary 5 of paper 004)

    python examples/bmc_trained.py [--quick] [--data DIR] [--only NAME ...] [--out FILE.png]

A sparse GP of labels (generated ringnorm, probit) and one of counts (abalone) are trained by the ELBO; then Adam trains
q by the log loss, β = 1, from the prior.  At its steps t, with γ_t = 1/t, δ_t = 6δ/(π²t²) and a_t = min(γ_t, ½), each
row has averages over L samples of φ = p(y|f), φ' and φ''.  The corollary asks for so many samples that, with
probability 1 − δ_t, no average of φ errs by more than a_t·E φ and none of φ', φ'' by more than a_t (times |E φ'| and
|E φ''| in the printed form); then the error w_t of the step is at most γ_t·c₃.

The program counts how often both fail: with L = 1, 10, 100, with the L of Corollary 5 ("printed", D-42), with the
sharper one of D-50 ("improved"), and with the least one that is proved (N-cher, "chernoff"), each row having its own L.
Rows that need more than `--most` samples are left out of these counts and reported.  Below them stands the least L of
1, 2, 5, 10, … for which the counted frequency is at most δ_t.  c₃ is that of the whole data: ζ = min E p, B* is the
greatest of all rows, and A = max ‖(v_i, vec v_iv_iᵀ)‖ in whitened coordinates.

Claim of the ledger: D-46.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from dlm_curves import objective_of
from dlm_losses import fitted
from dlm_setting import LIKELIHOODS, OUT, PICTURE, Task, checked, jobs, markdown, parser, plain, present, save, task
from scipy.stats import beta as beta_law

from fitting.objectives.point import Parameters
from fitting.training import train_adam
from gpbounds.cli import options
from gpbounds.likelihoods import Likelihood
from gpbounds.montecarlo import SampleSize, sample_size
from gpbounds.montecarlo.sizes import RULES
from gpbounds.plotting import BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline
from gpbounds.whitening import inducing

DATA = ("ringnorm", "abalone")
DELTA = 0.05
STEPS = (1, 3, 10, 30)
FEW = (1, 10, 100)
LADDER = tuple(digit * 10**power for power in range(4) for digit in (1, 2, 5))
"""Numbers of samples among which the least sufficient one is sought."""
ENTRIES = 1_000_000
COLORS = {"printed": VERMILLION, "improved": BLUE, "chernoff": GREEN}
STYLES: dict[str, dict[str, Any]] = {
    "printed": {"linewidth": 1.6},
    "improved": {"linewidth": 3.6, "alpha": 0.5},
    "chernoff": {"linewidth": 1.4},
}


@dataclass(frozen=True, eq=False)
class Step:
    """q at step t of training: y, mean m and variance v of f at each row, and V (M, n) with m = Vᵀw."""

    data: str
    t: int
    likelihood: Likelihood
    y: np.ndarray
    m: np.ndarray
    v: np.ndarray
    V: np.ndarray

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def gamma(self) -> float:
        return 1.0 / self.t

    @cached_property
    def gram(self) -> np.ndarray:
        return self.V.T @ self.V

    @cached_property
    def exact(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E φ, E φ', E φ''."""
        value, by_mean, by_variance = self.likelihood.log_expected_density(self.y, self.m, self.v, gradient=True)
        return np.exp(value), np.exp(value) * by_mean, 2.0 * np.exp(value) * by_variance

    def size(self, rule: Any) -> SampleSize:
        """The numbers of samples that the rule asks for, and c₃, row by row."""
        norms = np.sqrt(np.diag(self.gram) + np.diag(self.gram) ** 2)
        shared: dict[str, Any] = {"n": self.n, "delta": DELTA, "step": self.gamma, "iteration": self.t}
        return sample_size(self.likelihood, self.y, m=self.m, v=self.v, rule=rule, design=float(norms.max()), **shared)

    def averages(self, L: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Averages of φ, φ', φ'' over L samples of each row, (3, n); rows with L = 0 have none and are NaN."""
        sums = np.zeros((3, self.n))
        left = L.copy()
        while left.any():
            rows = np.flatnonzero(left)
            k = int(min(left[rows].min(), max(ENTRIES // rows.size, 1)))
            f = self.m[rows] + np.sqrt(self.v[rows]) * rng.standard_normal((k, rows.size))
            sums[:, rows] += [part.sum(axis=0) for part in self.likelihood.density_derivatives(self.y[rows], f)]
            left[rows] -= k
        with np.errstate(invalid="ignore"):
            return sums / L

    def error(self, averages: np.ndarray) -> float:
        """‖w_t‖, w_t = (1/n) Σ (e_i v_i, h_i vec v_iv_iᵀ), with the errors e of φ'/φ and h of ½φ''/φ.

        Rows without samples (NaN) have no error; it is infinite where an average of φ underflows to 0.
        """
        mean, first, second = self.exact
        if (averages[0] == 0.0).any():
            return np.inf
        e = np.nan_to_num(averages[1] / averages[0] - first / mean)
        h = np.nan_to_num(0.5 * (averages[2] / averages[0] - second / mean))
        return float(np.sqrt(max(e @ self.gram @ e + h @ self.gram**2 @ h, 0.0)) / self.n)


@dataclass(frozen=True)
class Count:
    """How often steps with these numbers of samples missed their tolerance."""

    data: str
    t: int
    rule: str
    allowed: float  # a_t
    least: float  # L over the rows
    median: float
    most: float
    left_out: int  # rows with more samples than were drawn
    repeats: int
    missed: int  # steps with an average that erred by more than a_t
    errors: int  # steps with ‖w_t‖ > γ_t c₃
    promised: float  # δ_t, a bound on the frequency of both
    largest: float  # max ‖w_t‖/(γ_t c₃)

    @property
    def agrees(self) -> bool:
        """Whether the counts are compatible with frequencies of at most δ_t, at a level of 0.1 %."""
        return all(surely_at_least(k, self.repeats, 0.001) <= self.promised for k in (self.missed, self.errors))


def surely_at_least(k: int, n: int, level: float) -> float:
    """The lower end of a one-sided Clopper–Pearson interval for a frequency, from k cases of n."""
    return float(beta_law.ppf(level, k, n - k + 1)) if k else 0.0


def counted(step: Step, rule: str, L: np.ndarray, promise: SampleSize, repeats: int, seed: int) -> Count:
    """Draw ``repeats`` steps.  Tolerances of φ', φ'' are relative for the printed rule only, and where E is not 0."""
    rng = np.random.default_rng([seed, step.t, *rule.encode()])
    allowed = float(np.min(promise.relative_error))
    exact = np.stack(step.exact)
    tolerance = np.full(exact.shape, allowed)
    tolerance[0] *= exact[0]
    if promise.rule == "printed":
        tolerance[1:] *= np.where(exact[1:] == 0.0, 1.0, np.abs(exact[1:]))
    limit = step.gamma * float(np.max(promise.c3))
    missed, norms = 0, []
    for _ in range(repeats):
        averages = step.averages(L, rng)
        missed += bool((np.abs(averages - exact) > tolerance)[:, L > 0].any())
        norms.append(step.error(averages))
    sizes = np.asarray(promise.L, dtype=np.float64) if rule in RULES else L.astype(np.float64)
    spread = [float(x) for x in np.quantile(sizes, [0.0, 0.5, 1.0])]
    over = int((np.array(norms) > limit).sum())
    shares = (repeats, missed, over, float(np.min(promise.delta)), max(norms) / limit)
    return Count(step.data, step.t, rule, allowed, *spread, int((L == 0).sum()), *shares)


def trajectory(part: Task, M: int, steps: Sequence[int], iterations: int) -> list[Step]:
    """q at the given steps of Adam, for the hyperparameters and inducing inputs of the ELBO."""
    elbo = fitted(part, "ELBO", M, iterations, 1e-3)
    problem = objective_of(part, "log-loss", 1.0)
    start = problem.complete(Parameters(elbo.kernel_, elbo.likelihood_, elbo.inducing_))
    packing = problem.packing(start, fixed=start.kernel.parameter_names, learn_Z=False)
    loss, run, made = packing.loss(problem), None, []
    V = inducing(start.kernel, start.Z, problem.data.jitter).whiten(part.X)
    for t in steps:
        point = packing.unpack(packing.pack(start) if run is None else run.state["x"])
        if t > 1:
            run = train_adam(loss, packing.pack(start), packing.bounds, max_iter=t - 1, learning_rate=0.1, earlier=run)
            point = packing.unpack(run.state["x"])
        mean, variance = problem.posterior_at(point).predict(part.X)
        made.append(Step(part.data, t, point.likelihood, problem.data.Y[:, 0], np.ravel(mean), variance, np.asarray(V)))
    return made


def counts(step: Step, most: int, repeats: int, budget: float, seed: int) -> list[Count]:
    """Of L = 1, 10, 100, and of each rule; as many steps as ``budget`` samples allow, if these are 20 or more."""
    promises = {rule: step.size(rule) for rule in RULES}
    made = []
    for L in FEW:
        fixed = np.full(step.n, L)
        made.append(
            counted(step, f"L = {L}", fixed, promises["chernoff"], min(repeats, int(budget // fixed.sum())), seed)
        )
    for rule, promise in promises.items():
        sizes = np.asarray(promise.L, dtype=np.float64)
        order = np.argsort(sizes)
        affordable = np.cumsum(sizes[order]) * 20.0 <= budget
        drawn = np.zeros(step.n, dtype=np.int64)
        rows = order[affordable & (sizes[order] <= most)]
        drawn[rows] = sizes[rows]
        if rows.size:
            number = int(np.clip(budget // drawn.sum(), 20, repeats))
            made.append(counted(step, rule, drawn, promise, number, seed))
    return made


def least_sufficient(step: Step, repeats: int, budget: float, seed: int) -> tuple[int | None, int | None]:
    """The least L of the ladder for which at most δ_t of the steps miss a_t, and ‖w_t‖ ≤ γ_t c₃; None if none does."""
    promise, answers = step.size("chernoff"), [None, None]
    for L in LADDER:
        number = min(repeats, int(budget // (L * step.n)))
        if number < 20:
            break
        record = counted(step, f"L = {L}", np.full(step.n, L), promise, number, seed)
        for k, count in enumerate((record.missed, record.errors)):
            if answers[k] is None and count <= record.promised * number:
                answers[k] = L
        if None not in answers:
            break
    return answers[0], answers[1]


def verdict(records: Sequence[Count]) -> list[str]:
    """For each rule the counts where all rows were drawn, apart from those that leave rows out."""
    lines, settings = [], list(dict.fromkeys((r.data, r.t) for r in records))
    for rule in RULES:
        rows = {(r.data, r.t): r for r in records if r.rule == rule}
        whole = [r for r in rows.values() if r.left_out == 0]
        if whole:
            number, promised = sum(r.repeats for r in whole), sum(r.promised * r.repeats for r in whole)
            word, where = "kept" if all(r.agrees for r in whole) else "broken", [f"{r.data} t = {r.t}" for r in whole]
            lines.append(
                f"{rule}: the promise is {word} where all rows were drawn ({', '.join(where)}): "
                f"{sum(r.missed for r in whole)} of {number} steps missed a tolerance, and "
                f"{sum(r.errors for r in whole)} had ‖w_t‖ > γ_t c₃; promised are {promised:.1f} at most; "
                f"the largest ‖w_t‖ was {max(r.largest for r in whole):.2g} of its bound."
            )
        else:
            lines.append(f"{rule}: nothing is tested, as no step had all of its rows drawn.")
        left = {each: f"{rows[each].left_out} rows" if each in rows else "all rows" for each in settings}
        others = [f"{data} t = {t} ({left[data, t]})" for data, t in settings if not left[data, t].startswith("0 ")]
        if others:
            lines.append(f"{rule}: not tested, as rows are left out, at {', '.join(others)}.")
    return lines


def table(records: Sequence[Count]) -> str:
    rows = [
        [
            *(r.data, str(r.t), f"{r.allowed:.3g}", r.rule),
            *(f"{r.least:,.0f} / {r.median:,.3g} / {r.most:,.3g}", str(r.left_out), str(r.repeats)),
            *(f"{r.missed / r.repeats:.3g}", f"{r.errors / r.repeats:.3g}", f"{r.promised:.2g}", f"{r.largest:.2g}"),
        ]
        for r in records
    ]
    head = ("data", "t", "a_t", "rule", "L: least / median / most", "rows left out", "steps")
    return markdown((*head, "missed a_t", "‖w‖ > γc₃", "promised", "max ‖w‖/(γc₃)"), rows)


def picture(steps: Sequence[Step], records: Sequence[Count], title: str) -> Any:
    names = list(dict.fromkeys(step.data for step in steps))
    page = figure(12.5, 1.2 + 4.0 * len(names))
    headline(page, title)
    grid = page.add_gridspec(len(names), 3)
    palette = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE)
    for row, data in enumerate(names):
        own = [step for step in steps if step.data == data]
        frequencies, norms, sizes = (page.add_subplot(grid[row, k]) for k in range(3))
        for step, color in zip(own, palette, strict=False):
            few = [r for r in records if r.data == data and r.t == step.t and r.rule not in RULES]
            at = [r.median for r in few]
            proved = [r for r in records if r.data == data and r.t == step.t and r.rule == "chernoff"]
            shares = [r.missed / r.repeats or np.nan for r in few]
            frequencies.plot(at, shares, color=color, marker="o", label=f"$t$ = {step.t}")
            none = [r for r in (*few, *proved) if not r.missed]
            heights = [1.0 / r.repeats for r in none]
            frequencies.plot([r.median for r in none], heights, color=color, marker="v", fillstyle="none", linestyle="")
            frequencies.axhline(few[0].promised, color=color, linewidth=0.9, linestyle=":")
            norms.plot(at, [r.largest for r in few], color=color, marker="o", label=f"$t$ = {step.t}")
        norms.axhline(1.0, color="0.4", linewidth=0.9, linestyle=":")
        for ax in (frequencies, norms):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.legend(fontsize=TEXT - 1, frameon=False)
        plain(
            frequencies,
            f"{data}: steps that miss $a_t$",
            "samples $L$; chernoff: their median",
            "frequency; dotted: promised",
        )
        plain(norms, "largest error of a step", "samples $L$", r"$\max\,\|w_t\|\,/\,(\gamma_t c_3)$")
        last = own[-1]
        for rule, color in COLORS.items():
            ordered = np.sort(np.asarray(last.size(rule).L, dtype=np.float64))
            sizes.step(ordered, np.arange(1, last.n + 1) / last.n, color=color, label=rule, **STYLES[rule])
        sizes.set_xscale("log")
        sizes.legend(fontsize=TEXT - 1, frameon=False)
        plain(sizes, f"samples that suffice at $t$ = {last.t}", "samples $L$", "share of the rows")
    return page


def main(argv: Sequence[str] | None = None) -> None:
    made = parser(__doc__, splits=0, tests=0, inducing=20)
    for name, default, about in (
        ("rows", 200, "training rows n"),
        ("iterations", 200, "iterations of the ELBO's training at most"),
        ("repeats", 1000, "steps drawn for each count at most"),
        ("most", 1_000_000, "rows that need more samples are left out"),
    ):
        about = f"{about} (default %(default)s)"
        made.add_argument(f"--{name}", metavar="N", type=options.whole, default=default, help=about)
    made.add_argument(
        "--budget", metavar="S", type=options.number, default=3e7, help="samples for each count (default %(default)g)"
    )
    made.add_argument("--out", metavar="FILE", type=options.picture_file, default=OUT / "bmc_trained.png", help=PICTURE)
    args = made.parse_args(argv)
    steps: tuple[int, ...] = STEPS
    if args.quick:
        args.rows, args.inducing, args.iterations, args.repeats, args.budget = 30, 6, 20, 200, 4e5
        args.only, steps = args.only or ["ringnorm", "waves"], (1, 3)
    checked(made, args, rows=10, inducing=1, iterations=1, repeats=20, most=1)
    names = present([name for name in args.only or DATA if LIKELIHOODS[name] != "gaussian"], args.data)
    paths = {
        name: trajectory(task(name, args.data, args.rows, 0, 1), args.inducing, steps, args.iterations)
        for name in names
    }
    records: list[Count] = []
    lines = []
    for name, t in jobs([(name, t) for name in names for t in steps], "step"):
        step = next(each for each in paths[name] if each.t == t)
        records += counts(step, args.most, args.repeats, args.budget, 0)
        save(args.out, records)
        least = least_sufficient(step, args.repeats, args.budget, 0)
        shown = ["more than were tried" if L is None else str(L) for L in least]
        lines.append(f"{name}, t = {t}: least L for the tolerance a_t {shown[0]}, for ‖w_t‖ ≤ γ_t c₃ {shown[1]}.")
    title = (
        f"bMC at step $t$ of training q, n = {args.rows}, M = {args.inducing}, δ = {DELTA:g}, $\\gamma_t = 1/t$\n"
        "left: a triangle is a count of 0, drawn at one case, on the right of the least proved numbers of samples\n"
        "middle: 1 is the proved bound"
    )
    picture([step for path in paths.values() for step in path], records, title).savefig(args.out)
    print(table(records))
    print("\n".join([*lines, *verdict(records)]))
    print(args.out)


if __name__ == "__main__":
    main()
