"""What the records of `renyi_study.py` say: tables in Markdown, and the papers' claims with the numbers' verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from dlm_setting import cell, markdown
from paired import Paired, Tally, paired
from renyi_setting import CLAIMED, METHODS, NEAR, Group

PRINTED = {
    "bike_hourly": ((13.41, 16.93, 13.76, 10.99), 0.50, (0.41, 0.15, 0.10, -0.28)),
    "cmapss_fd001": ((16.11, 17.45, 15.09, 12.87), 0.45, (-1.00, -1.45, -1.55, -2.03)),
    "pm25": ((11.74, 15.85, 10.83, 8.02), 0.55, (2.04, 1.55, 1.83, 1.02)),
    "traffic": ((15.42, 17.47, 15.17, 12.85), 0.50, (-0.42, -0.47, -1.07, -0.85)),
}
"""Paper 000, Table 1 and App. F: RMSE of EGP, SGP, PEP and Rényi, the best α, and NLL of the same methods."""
RIVALS = METHODS[:3]


def near(order: float) -> bool:
    """Whether an order is near the claimed ½; 0.65 − 0.5 is not exactly 0.15."""
    return round(abs(order - CLAIMED), 9) <= NEAR


def shown(gap: Paired) -> str:
    """With two digits: on toy functions the methods differ by thousandths."""
    return f"{gap.mean:+.2g}" + (f" ± {gap.error:.1g}" if np.isfinite(gap.error) else "")


def in_settings(gaps: Sequence[Paired]) -> str:
    """In how many settings the first is less than the second, and by how much."""
    tally = Tally(gaps)
    (low, high), less = tally.counts, sum(gap.mean < 0.0 for gap in gaps)
    return (
        f"{tally.word}: less in {less} of {len(gaps)} settings, surely in {low}, surely more in {high}; differences "
        f"{', '.join(map(shown, gaps))}"
    )


def lead(group: Group, rival: str, metric: str = "RMSE") -> Paired:
    """Rényi − rival, each at the order with the least mean test error."""
    return paired(group.best("Rényi", metric), group.best(rival, metric))


def line(group: Group, metric: str = "RMSE") -> str:
    """The best order of one group, and its distance from the ends and the other methods."""
    best, orders = group.by_test("Rényi", metric), group.orders("Rényi")
    value = float(group.values("Rényi", best, metric).mean())
    ends = [
        f"{shown(group.gap(('Rényi', best), ('Rényi', a), metric))} against α = {a:g}" for a in (orders[0], orders[-1])
    ]
    others = [f"{shown(lead(group, rival, metric))} against {rival}" for rival in RIVALS if group.orders(rival)]
    power = f" (power {group.by_test('PEP', metric):g})" if group.orders("PEP") else ""
    return f"{group}: {metric} is least at α = {best:g} ({value:.3f}); {'; '.join([*ends, *others])}{power}."


def in_thousandths(gap: Paired) -> str:
    """A difference in units of 10⁻³, bold where it is sure: on toy functions the methods differ by no more."""
    text = f"{1e3 * gap.mean:+.2f}" + (f" ± {1e3 * gap.error:.2f}" if np.isfinite(gap.error) else "")
    return f"**{text}**" if gap.surely_less or gap.surely_more else text


def by_function(groups: Sequence[Group]) -> str:
    """Fig. 1: RMSE of the middle order and differences from the ends; of the best order (by the tests) from others."""
    orders = groups[0].orders("Rényi")
    middle = min(orders, key=lambda a: abs(a - CLAIMED))
    ends = [a for a in (orders[0], orders[-1]) if a != middle]
    header = ["function, kernel", f"RMSE, α = {middle:g}", *(f"10³ × (α {middle:g} − {a:g})" for a in ends), "α*"]
    header += [f"10³ × (α* − {rival})" for rival in RIVALS] + ["splits"]
    rows = []
    for group in groups:
        gaps = [group.gap(("Rényi", middle), ("Rényi", a)) for a in ends]
        leads = [in_thousandths(lead(group, rival)) for rival in RIVALS]
        cells = [cell(group.values("Rényi", middle)), *map(in_thousandths, gaps), f"{group.by_test('Rényi'):g}", *leads]
        rows.append([f"{group.data}, {group.kernel}", *cells, f"{len(group.seeds)}"])
    return markdown(header, rows)


def claims(groups: Sequence[Group]) -> list[str]:
    """The claims of Secs. 8.1 to 8.4 that several orders of several data sets can decide."""
    best = [group.by_test("Rényi") for group in groups]
    inner, ends = [], []
    for group in groups:
        orders = group.orders("Rényi")
        middle = min(orders, key=lambda a: abs(a - CLAIMED))
        inner.append(group.gap(("Rényi", middle), ("Rényi", orders[0])))
        ends.append(group.gap(("Rényi", middle), ("Rényi", orders[-1])))
    surely = sum(a.surely_less and b.surely_less for a, b in zip(inner, ends, strict=True))
    lines = [
        f"RMSE is least at α within {NEAR:g} of ½: in {sum(map(near, best))} of {len(groups)} settings (least at "
        f"{', '.join(f'{a:g}' for a in best)}); the middle order is surely below both ends in {surely}.",
        f"The middle order has a smaller RMSE than the smallest: {in_settings(inner)}.",
        f"The middle order has a smaller RMSE than the largest: {in_settings(ends)}.",
    ]
    for rival in RIVALS:
        if groups[0].orders(rival):
            lines.append(
                f"Rényi (best order) has a smaller RMSE than {rival}: {in_settings([lead(g, rival) for g in groups])}."
            )
    if all(groups[0].orders(rival) for rival in RIVALS):
        gaps = [paired(group.best("EGP"), group.best("SGP")) for group in groups]
        low, high = Tally(gaps).counts
        word = "agrees" if low and high else "does not agree"
        lines.append(f"Of EGP and SGP neither always has the smaller RMSE: {word}; EGP surely in {low}, SGP in {high}.")
        spread = [
            (group.best("PEP").std(ddof=1), group.best("Rényi").std(ddof=1)) for group in groups if len(group.seeds) > 1
        ]
        text = ", ".join(f"{a:.3f} and {b:.3f}" for a, b in spread)
        lines.append(f"Standard deviations of the RMSE over splits, PEP and Rényi at their best orders: {text}.")
    return lines


def counts(orders: Iterable[float]) -> str:
    """Each order and how often it was chosen.

    >>> counts([0.5, 0.1, 0.5])
    '0.1, 0.5 (2)'
    """
    times = sorted(Counter(orders).items())
    return ", ".join(f"{order:g} ({n})" if n > 1 else f"{order:g}" for order, n in times)


def by_cross_validation(groups: Sequence[Group], metric: str) -> str:
    """Table 1 or App. F: orders chosen by cross-validation, and in the columns marked * by the test rows."""
    column = 0 if metric == "RMSE" else 2
    header = [
        "data",
        "EGP",
        "SGP",
        "PEP",
        "Rényi",
        "PEP*",
        "Rényi*",
        "α by CV",
        "α*",
        "printed: EGP, SGP, PEP*, Rényi*, α*",
    ]
    rows = []
    for group in groups:
        chosen = {method: group.by_validation(method) for method in ("PEP", "Rényi")}
        cells = [cell(group.values(method, 0.0, metric)) for method in ("EGP", "SGP")]
        cells += [cell(group.at(method, chosen[method], metric)) for method in chosen]
        cells += [cell(group.values(method, group.by_test(method), metric)) for method in chosen]
        cells += [counts(chosen["Rényi"]), f"{group.by_test('Rényi'):g}"]
        paper = PRINTED.get(group.data)
        printed = "" if paper is None else ", ".join(f"{v:.2f}" for v in paper[column]) + f", {paper[1]:g}"  # type: ignore[union-attr]
        rows.append([group.data, *cells, printed])
    return markdown([metric if name == "data" else name for name in header], rows)


def ranking(groups: Sequence[Group]) -> list[str]:
    """The methods of each data set from the least RMSE, here with orders by cross-validation, and in the paper."""
    lines = []
    for group in groups:
        here = {method: group.values(method).mean() for method in ("EGP", "SGP")}
        here |= {method: group.at(method, group.by_validation(method)).mean() for method in ("PEP", "Rényi")}
        text = f"{group.data}: {' < '.join(sorted(here, key=here.__getitem__))}"
        if group.data in PRINTED:
            paper = dict(zip(METHODS, PRINTED[group.data][0], strict=True))
            text += f"; printed {' < '.join(sorted(paper, key=paper.__getitem__))}"
        lines.append(text + ".")
    return lines


def by_inducing(groups: Sequence[Group], metric: str) -> str:
    """Table 2: a metric by M and α, with power EP at its best power; bold: the least of a row."""
    orders = groups[0].orders("Rényi")
    rows = []
    for group in sorted(groups, key=lambda group: group.M):
        arrays = [*(group.values("Rényi", a, metric) for a in orders), group.best("PEP", metric)]
        least = int(np.argmin([array.mean() for array in arrays]))
        cells = [f"**{cell(a)}**" if i == least else cell(a) for i, a in enumerate(arrays)]
        rows.append([f"M = {group.M}", *cells, f"{group.by_test('PEP', metric):g}"])
    return markdown([metric, *(f"α = {a:g}" for a in orders), "PEP*", "power*"], rows)


def by_size(groups: Sequence[Group]) -> str:
    """Rényi at α = ½ minus the other methods, against the number of training rows."""
    rows = []
    for group in sorted(groups, key=lambda group: (group.data, group.rows)):
        gaps = [group.gap(("Rényi", CLAIMED), (rival, 0.5 if rival == "PEP" else 0.0)) for rival in RIVALS]
        cells = [f"**{gap}**" if gap.surely_less or gap.surely_more else str(gap) for gap in gaps]
        rows.append([group.data, f"{round(0.6 * group.rows)}", cell(group.values("Rényi", CLAIMED)), *cells])
    return markdown(["data", "N", "RMSE of Rényi ½", *(f"− {rival}" for rival in RIVALS)], rows)


def per_step(group: Group, method: str, learned: int) -> np.ndarray:
    """Seconds of an iteration (seeds,)."""
    order = group.orders(method)[0]
    return group.values(method, order, "seconds", learned) / group.values(method, order, "steps", learned)


def by_time(groups: Sequence[Group]) -> str:
    """Table 4: processor seconds of an iteration, with and without learned inducing points."""
    rows = [
        [group.data, f"{round(0.6 * group.rows)}", f"{group.M}", "yes" if learned else "no"]
        + [cell(per_step(group, method, learned)) for method in METHODS]
        for group in groups
        for learned in (1, 0)
    ]
    return markdown(["seconds", "N", "M", "learned Z", *METHODS], rows)
