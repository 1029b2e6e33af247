"""How fast the inverse of the binary kl is, and how right: ``python benchmarks/bench_klinv.py [--json FILE]``.

Beside it what people write instead: bisection in Python, SciPy's brentq in a loop, 60 bisections and five Newton steps
on arrays.  Two sets of pairs (q, ε): moderate ones (q uniform, ε exponential of mean 0.1), and all decades (both from
1e-300).  Errors are those of 2000 pairs against the certified value, in units of its last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from harness import Case, Timing, arguments, measure, opening, save

from gpbounds.pacbayes import kl_inverse

Inverse = Callable[[np.ndarray, np.ndarray], np.ndarray]
CHECKED = 2000
GOALS = {"kl_inverse": 5e6, "kl_inverse, 1 - p": 5e6, "kl_inverse, lower": 5e6, "kl_inverse, certified": 1e4}


def pairs(kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if kind == "moderate":
        return rng.random(count), rng.exponential(0.1, count)
    return 10.0 ** rng.uniform(-300, 0, count), 10.0 ** rng.uniform(-300, math.log10(700), count)


def plain_kl(q: float, p: float) -> float:
    """As textbooks have it."""
    value = q * math.log(q / p) if q > 0.0 else 0.0
    return value + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1.0 else 0.0)


def python_bisection(q: np.ndarray, eps: np.ndarray) -> np.ndarray:
    def root(a: float, e: float) -> float:
        low, high = a, 1.0
        while high - low > 1e-16 and (middle := 0.5 * (low + high)) not in (low, high):
            low, high = (middle, high) if plain_kl(a, middle) <= e else (low, middle)
        return 0.5 * (low + high)

    return np.array([root(a, e) for a, e in zip(q.tolist(), eps.tolist(), strict=True)])


def brentq_loop(q: np.ndarray, eps: np.ndarray) -> np.ndarray:
    from scipy.optimize import brentq

    def root(a: float, e: float) -> float:
        try:
            return float(brentq(lambda p: plain_kl(a, p) - e, a, 1.0 - 2.0**-53, xtol=1e-300))
        except (ValueError, RuntimeError):  # no change of sign, no convergence
            return math.nan

    return np.array([root(a, e) for a, e in zip(q.tolist(), eps.tolist(), strict=True)])


def array_kl(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    return q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))


def sixty_bisections(q: np.ndarray, eps: np.ndarray) -> np.ndarray:
    low, high = q.copy(), np.ones_like(q)
    with np.errstate(all="ignore"):
        for _ in range(60):
            middle = 0.5 * (low + high)
            small = array_kl(q, middle) <= eps
            low, high = np.where(small, middle, low), np.where(small, high, middle)
    return 0.5 * (low + high)


def five_newton_steps(q: np.ndarray, eps: np.ndarray) -> np.ndarray:
    p = np.minimum(q + np.sqrt(0.5 * eps), 0.5 * (1.0 + q))
    with np.errstate(all="ignore"):
        for _ in range(5):
            p = p - (array_kl(q, p) - eps) * p * (1 - p) / (p - q)
    return p


METHODS: dict[str, tuple[Inverse, int]] = {  # and how many values a run takes
    "kl_inverse": (kl_inverse, 1_000_000),
    "kl_inverse, 1 - p": (lambda q, eps: kl_inverse(q, eps, complement=True), 1_000_000),
    "kl_inverse, lower": (lambda q, eps: kl_inverse(q, eps, side="lower"), 1_000_000),
    "kl_inverse, certified": (lambda q, eps: kl_inverse(q, eps, rigor="sharp"), 5_000),
    "bisection in Python": (python_bisection, 1_000),
    "brentq in a loop": (brentq_loop, 5_000),
    "60 bisections on arrays": (sixty_bisections, 100_000),
    "five Newton steps on arrays": (five_newton_steps, 1_000_000),
}


def errors(name: str, method: Inverse, kind: str) -> tuple[float, int]:
    """Largest error in ulp among the numbers, and how many are none."""
    q, eps = pairs(kind, CHECKED)
    truth = kl_inverse(q, eps, "lower" if "lower" in name else "upper", "1 - p" in name, rigor="sharp")
    computed = np.asarray(method(q, eps))
    wrong = ~np.isfinite(computed)
    off = np.abs(computed - truth)[~wrong] / np.spacing(truth[~wrong])
    return float(off.max(initial=0.0)), int(wrong.sum())


def record(name: str, kind: str, count: int, timing: Timing, off: float, wrong: int) -> dict[str, object]:
    return {"method": name, "pairs": kind, "values": count, "values_per_s": count / timing.median} | {
        **timing.to_dict(),
        "largest_error_ulp": off,
        "not_a_number": wrong,
        "checked": CHECKED,
    }


def main() -> None:
    options = arguments(__doc__, 9).parse_args()
    heads = f"{'':<28} {'pairs':<10} {'values/s':>12} {'goal':>12} {'largest error':>15} {'NaN of 2000':>12}"
    about = opening(heads)
    records = []
    for kind in ("moderate", "decades"):
        for name, (method, count) in METHODS.items():
            q, eps = pairs(kind, count)
            goal = GOALS.get(name)

            def run(method: Inverse = method, q: np.ndarray = q, eps: np.ndarray = eps) -> None:
                method(q, eps)

            timing = measure(Case(name, None if goal is None else count / goal, run), options.repeats)
            off, wrong = errors(name, method, kind)
            rate = count / timing.median
            missed = "" if goal is None or rate >= goal else "  MISSED"
            wanted = "" if goal is None else f"{goal:,.0f}"
            print(f"{name:<28} {kind:<10} {rate:>12,.0f} {wanted:>12} {off:>11.3g} ulp {wrong:>12}{missed}", flush=True)
            records.append(record(name, kind, count, timing, off, wrong))
    save(options.json, about, records)


if __name__ == "__main__":
    main()
