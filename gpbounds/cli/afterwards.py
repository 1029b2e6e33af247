"""After the fact: the number of inducing points, chosen among these rows, that provably suffices for their y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpbounds.arrays import Float
from gpbounds.bound import Bound, Cost, outward
from gpbounds.cli.data import Data
from gpbounds.cli.selection import Chooser, NoSuchSubset
from gpbounds.kernels import Kernel
from gpbounds.numerics.search import bisected

Pair = tuple[Bound, Bound]


@dataclass(frozen=True)
class Afterwards:
    """Bounds on the gap that chosen inducing points reach.

    Attributes
    ----------
    method : str
    N : int
        Rows, all of the data.
    target : float
    M : int or None
        The least M tried whose upper bound is <= target; None if no M tried has such a bound.
    at : (Bound, Bound) or None
        Lower and upper bound on the gap at M, or at the last M tried if M is None.
    before : (Bound, Bound) or None
        The same at M - 1.
    tried : int
        The largest M tried.
    needed : int
        Fewer inducing variables cannot reach the target on these rows, however they are chosen (N-low).
    notes : tuple of str
    interrupted : bool
        Whether Ctrl-C ended the search; then fewer points may suffice.
    """

    method: str
    N: int
    target: float
    M: int | None
    at: Pair | None
    before: Pair | None
    tried: int
    needed: int
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    def __str__(self) -> str:
        if self.at is None:
            lines = [f"The target needs {self.needed} inducing points (N-low), but this method cannot choose so many."]
        elif self.M is None:
            lines = [f"No M tried, up to {self.tried}, has an upper bound <= {self.target:g}."]
            lines.append(f"At M = {self.tried}: {interval(self.at)}")
        else:
            lines = [f"M = {self.M} of N = {self.N} suffice for an upper bound <= {self.target:g}: {interval(self.at)}"]
            lines += [f"At M - 1: {interval(self.before)}"] if self.before else []
            lines.append(f"Cost: {Cost.of(self.N, self.M)}.")
        lines += [f"  Assumes: {sentence}" for sentence in self.at[1].assumptions] if self.at else []
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""

        def pair(bounds: Pair | None) -> list[dict[str, Any]] | None:
            return None if bounds is None else [bound.to_dict() for bound in bounds]

        record = {name: getattr(self, name) for name in ("method", "N", "target", "M", "tried", "needed", "notes")}
        return {**record, "bounds": pair(self.at), "bounds_before": pair(self.before)}


def interval(bounds: Pair) -> str:
    """Lower and upper bound on one line."""
    lower, upper = bounds
    claims = " and ".join(dict.fromkeys((lower.claim, upper.claim)))
    return (
        f"{outward(float(lower), 'lower')} <= {upper.quantity} <= {outward(float(upper), 'upper')}, always ({claims})."
    )


def least(meets: Callable[[int], bool | None], first: int, last: int) -> tuple[int | None, int]:
    """(M, tried): meets(M), and not meets(M − 1) unless M = ``first``; ``tried`` is the largest size that exists.

    ``meets`` returns None if no set of that size exists; then no larger set exists either.  The search doubles M, then
    bisects.  If ``meets`` is not monotone, the result is one of several such M.

    >>> least(lambda M: None if M > 50 else M >= 37, 1, 100), least(lambda M: False, 3, 20), least(lambda M: None, 1, 9)
    ((37, 48), (None, 20), (None, 0))
    """
    low, missing = first - 1, last + 1  # `low` does not meet the target; no set of size `end` exists
    high = None
    while high is None:
        if low + 1 >= missing:
            return None, low if low >= first else 0
        size = (low + missing) // 2 if missing <= last else min(2 * low if low >= first else first, last)
        reached = meets(size)
        if reached is None:
            missing = size
        elif reached:
            high = size
        else:
            low = size
    return bisected(meets, low, high), high


@dataclass
class Gaps:
    """Bounds on the gap for M chosen points, cached by M: cheap methods first, others only if those do not decide.

    With at most ``rows`` rows the methods also stream K and, for α < 1, decompose it.  The sharpest lower and upper
    bounds are kept.
    """

    chooser: Chooser
    data: Data
    noise: float
    alpha: float
    direction: str
    rows: int
    cache: dict[int, tuple[Bound, Bound, int]] = field(default_factory=dict)

    @property
    def methods(self) -> tuple[Literal["streamed", "blocks", "dense"], ...]:
        """Methods of `gap`, cheapest first."""
        if self.data.N > self.rows:
            return ("streamed",)
        return ("streamed", "blocks") if self.alpha == 1.0 else ("streamed", "blocks", "dense")

    def __call__(self, M: int, target: float | None = None) -> Pair:
        """Lower and upper bound at M; with ``target``, only sharp enough to decide whether the gap exceeds it."""
        Z = self.chooser.points(M)
        lower, upper, done = self.cache.get(M) or (*self._pair(Z, self.methods[0]), 1)
        for method in self.methods[done:]:
            if target is not None and not float(lower) <= target < float(upper):
                break
            below, above = self._pair(Z, method)
            lower, upper = max(lower, below, key=float), min(upper, above, key=float)
            done += 1
        self.cache[M] = (lower, upper, done)
        return lower, upper

    def _pair(self, Z: Float, method: Literal["streamed", "blocks", "dense"]) -> Pair:
        from gpbounds.renyi import gap

        kernel, data = self.chooser.kernel, self.data
        pair = gap(kernel, data.X, data.y, Z, self.alpha, noise=self.noise, jitter="auto", method=method)
        return directed(pair, self.alpha, self.direction)


def directed(pair: Pair, alpha: float, direction: str) -> Pair:
    """Bounds on D_α[q*‖p] as they are, or turned into bounds on D_α[p‖q*] (R-dir)."""
    from gpbounds.renyi import direction_factor

    lower, upper = pair
    if direction == "q||p":
        name = f"D_{alpha:g}[q*||p]"
        return replace(lower, quantity=name), replace(upper, quantity=name)
    factor, name = float(direction_factor(alpha)), f"D_{alpha:g}[p||q*]"
    return (
        replace(lower, value=float(lower) / factor, claim=f"{lower.claim}, R-dir", quantity=name, terms={}),
        replace(upper, value=float(upper) * factor, claim=f"{upper.claim}, R-dir", quantity=name, terms={}),
    )


def afterwards(
    kernel: Kernel,
    data: Data,
    noise: float,
    alpha: float,
    target: float,
    *,
    method: str,
    most: int,
    rows: int,
    seed: int,
    direction: str = "q||p",
) -> Afterwards:
    """The least M ≤ ``most``, M < N, whose upper bound meets ``target``."""
    from tqdm import tqdm

    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.renyi import needed

    chooser = Chooser(kernel, data.X, method, seed)
    gaps = Gaps(chooser, data, noise, alpha, direction, rows)
    last = min(most, data.N - 1)
    least_needed = 1
    if direction == "q||p":
        least_needed = needed(
            kernel, data.X, alpha, noise=noise, target=target, landmarks=None if data.N <= rows else last
        )
    reason_to_stop, interrupted = "", False
    with tqdm(desc=f"After the fact, {chooser.name}", unit="subset", leave=False, disable=None) as progress:

        def meets(M: int) -> bool | None:
            nonlocal reason_to_stop
            progress.update()
            try:
                return float(gaps(M, target)[1]) <= target
            except (NoSuchSubset, NotPositiveDefinite) as error:
                reason_to_stop = f"M = {M}: {error}"
                return None

        try:
            M, tried = least(meets, min(least_needed, last), last)
        except KeyboardInterrupt:
            enough = [size for size, (_, upper, _) in gaps.cache.items() if float(upper) <= target]
            if not enough:
                raise
            M, tried, interrupted = min(enough), max(gaps.cache), True
        shown = M or tried
        at = gaps(shown) if shown else None
        before = gaps(M - 1) if M is not None and M > 1 and not interrupted else None
    notes = [
        f"The bounds hold for these {data.N} rows, their y and the chosen points; the kernel may be fitted to them."
    ]
    if not chooser.nested:
        notes.append(f"For each M one {chooser.name} choice was tried (seed {seed}); another may have a smaller gap.")
    elif M is not None:
        notes.append("Larger sets contain the smaller ones, so D_α[q*||p] does not increase beyond this M (N-monoQ).")
    if data.N > rows:
        notes.append(f"The data have more than --rows {rows} rows, so these are the wider bounds, which cost O(NM²).")
    if at is not None and (jitter := at[1].terms.get("jitter")):
        notes.append(f"The approximation adds jitter {jitter:.3g} to Kuu, the smallest value with which it factorises.")
    if interrupted:
        notes.append("Interrupted: fewer points may suffice.")
    if M is None and reason_to_stop:
        notes.append(f"The search stopped at {reason_to_stop}.")
    return Afterwards(method, data.N, target, M, at, before, tried, least_needed, tuple(notes), interrupted)
