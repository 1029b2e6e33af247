"""After the fact: what inducing points that are chosen among these rows reach for their y, and what no choice can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fitting.study.standardised import TableRows
from fitting.study.words import Spelling, argument
from gpbounds.arrays import Float
from gpbounds.bound import Bound, Cost, outward
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.numerics.search import bisected
from gpbounds.progress import bar, on_terminal

CHOICES = ("greedy", "kdpp", "best", "rpcholesky", "uniform", "kmeans", "leverage")
NAMES = {
    "kdpp": "k-DPP",
    "kmeans": "k-means",
    "leverage": "leverage-score",
    "rpcholesky": "randomly pivoted",
    "best": "best-of-ten",
}


class NoSuchSubset(ValueError):
    """The method cannot choose so many points: the numerical rank or the number of distinct rows is smaller."""


@dataclass
class Chooser:
    """Inducing points by ``method``: nested sets if `nested`, otherwise an independent choice for each M."""

    kernel: Kernel
    X: Float
    method: str
    seed: int
    _order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def name(self) -> str:
        """The method as text."""
        return NAMES.get(self.method, self.method)

    @property
    def nested(self) -> bool:
        """Whether larger sets contain the smaller ones."""
        return self.method in ("greedy", "rpcholesky", "uniform")

    def points(self, M: int) -> Float:
        """Z of shape (M, D).  Raises `NoSuchSubset` if the method cannot choose M points."""
        from gpbounds.kdpp import select

        if self._order.size >= M:
            return self.X[self._order[:M]]
        rng = np.random.default_rng(self.seed if self.nested else (self.seed, M))
        jitter: Any = 0.0 if self.method in ("greedy", "rpcholesky") else "auto"
        try:
            selection = select(self.kernel, self.X, M, self.method, rng, jitter=jitter)
        except ValueError as error:
            raise NoSuchSubset(str(error)) from None
        if selection.indices is not None and self.nested:
            self._order = selection.indices
        return selection.Z


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
            lines = [
                f"With this kernel and noise, no M tried, up to {self.tried}, has an upper bound <= {self.target:g}."
            ]
            lines.append(f"At M = {self.tried}: {interval(self.at)}")
        else:
            lines = [f"With this kernel and noise, M = {self.M} of N = {self.N} suffice for an upper bound <= "]
            lines[0] += f"{self.target:g}: {interval(self.at)}"
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
    data: TableRows
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
    data: TableRows,
    noise: float,
    alpha: float,
    target: float,
    *,
    method: str,
    most: int,
    rows: int,
    seed: int,
    direction: str = "q||p",
    below: bool = True,
    progress: bool = False,
    spelled: Spelling = argument,
) -> Afterwards:
    """The least M ≤ ``most``, M < N, whose upper bound meets ``target``; ``below``, and what fewer points reach.

    Greedy points at order 1 are searched as `gpbounds.audit.enough` searches them, so that a plan for a trained model
    and its audit have the same M, and the same lower bound for any choice: ``rows`` is at least `FLOOR_ROWS`.
    """
    if alpha == 1.0 and direction == "q||p" and method == "greedy":
        return _as_audited(kernel, data, noise, target, most, max(rows, FLOOR_ROWS), below, progress)
    gaps = Gaps(Chooser(kernel, data.X, method, seed), data, noise, alpha, direction, rows)
    return _least_gap(gaps, target, most, progress, spelled)


FLOOR_ROWS = 3000
"""Up to here the lower bound for any choice is that of all eigenvalues of K, as `gpbounds.audit.enough` has it."""

_ABOUT_ROWS = "The bounds hold for these {N} rows, their y and the chosen points; the kernel may be fitted to them."
_NESTED = "Larger sets contain the smaller ones, so D_α[q*||p] does not increase beyond this M (N-monoQ)."
_JITTER = "The approximation adds jitter {jitter:.3g} to Kuu, the smallest value with which it factorises."
_INTERRUPTED = "Interrupted: fewer points may suffice."


def _as_audited(
    kernel: Kernel, data: TableRows, noise: float, target: float, most: int, rows: int, below: bool, progress: bool
) -> Afterwards:
    """The search of an audit without a model's own inducing points."""
    from gpbounds.audit import enough, subject

    about = subject(kernel, data.X, data.y, noise=noise)
    shown = on_terminal(progress)
    audited = enough(about, target=target, most=most, rows=rows, curve=False, below=below, progress=shown)
    M, tried = audited.counts[0], audited.tried[0]
    levels = {level.M: level for level in audited.of("chosen")}
    if audited.interrupted:
        reached = [M for M, level in levels.items() if float(level.divergence(audited.evidence)[1]) <= target]
        M = min(reached, default=None)

    def pair(size: int | None) -> Pair | None:
        level = levels.get(size or 0)
        return None if level is None else directed(level.divergence(audited.evidence), 1.0, "q||p")

    notes = [_ABOUT_ROWS.format(N=data.N)]
    if M is not None:
        notes.append(_NESTED)
    if audited.left_out:
        notes.append(f"For {data.N} rows log p(y) is bounded, not computed, so that fewer points may suffice.")
    if audited.interrupted:
        notes.append(_INTERRUPTED)
    if M is None and tried < min(most, data.N - 1) and not audited.interrupted:
        notes.append(f"The search stopped at M = {tried}: no other row has a variance that these do not explain.")
    before = None if M is None or audited.interrupted else pair(M - 1)
    return Afterwards(
        "greedy", data.N, target, M, pair(M or tried), before, tried, audited.needed, tuple(notes), audited.interrupted
    )


def _least_gap(gaps: Gaps, target: float, most: int, progress: bool, spelled: Spelling) -> Afterwards:
    """The search for other orders, directions and ways to choose points, one gap after another."""
    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.renyi import needed

    chooser, data, noise, rows = gaps.chooser, gaps.data, gaps.noise, gaps.rows
    last = min(most, data.N - 1)
    least_needed = 1
    if gaps.direction == "q||p":
        landmarks = None if data.N <= rows else last
        least_needed = needed(chooser.kernel, data.X, gaps.alpha, noise=noise, target=target, landmarks=landmarks)
    reason_to_stop, interrupted = "", False
    with bar(f"After the fact, {chooser.name}", None, "subset", on_terminal(progress)) as subsets:

        def meets(M: int) -> bool | None:
            nonlocal reason_to_stop
            subsets.update()
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
    notes = [_ABOUT_ROWS.format(N=data.N)]
    if not chooser.nested:
        seed = chooser.seed
        notes.append(f"For each M one {chooser.name} choice was tried (seed {seed}); another may have a smaller gap.")
    elif M is not None:
        notes.append(_NESTED)
    if data.N > rows:
        notes.append(
            f"The data have more than {spelled('rows', rows)} rows, so these are the wider bounds, which cost O(NM²)."
        )
    if at is not None and (jitter := at[1].terms.get("jitter")):
        notes.append(_JITTER.format(jitter=jitter))
    if interrupted:
        notes.append(_INTERRUPTED)
    if M is None and reason_to_stop:
        notes.append(f"The search stopped at {reason_to_stop}.")
    return Afterwards(chooser.method, data.N, target, M, at, before, tried, least_needed, tuple(notes), interrupted)


# Lower bounds for given rows: for any y, and on average over y from the prior.


@dataclass(frozen=True, eq=False)
class Floors:
    """Lower bounds on the eigenvalues of k(X, X), and on the gap of every choice of M inducing variables."""

    eigenvalues: Float
    noise: float
    alpha: float

    @classmethod
    def of(cls, kernel: Kernel, X: Float, noise: float, alpha: float) -> Floors:
        """Compute them from the rows X, in O(N³)."""
        decomposed = eigen(kernel(X), "k(X, X)")
        return cls(np.maximum(decomposed.values - decomposed.rounding, 0.0), noise, alpha)

    def any_y(self, M: Float) -> Float:
        """Lower bound on D_α for every choice of M inducing variables and every y (N-low)."""
        from gpbounds.renyi import minimum_gap

        return np.asarray(minimum_gap(self.eigenvalues, M.astype(np.int64), self.alpha, noise=self.noise))

    def prior(self, M: Float) -> Float:
        """Lower bound on the mean of D_α over y from the prior, for every choice made without y (N-lowprior)."""
        from gpbounds.renyi import minimum_gap

        return np.asarray(minimum_gap(self.eigenvalues, M.astype(np.int64), self.alpha, noise=self.noise, y="prior"))

    def needed(self, bound: Callable[[Float], Float], target: float) -> int:
        """The least M at which ``bound`` does not exceed the target."""
        above = np.flatnonzero(bound(np.arange(1.0, self.eigenvalues.size)) > target)
        return int(above[-1]) + 2 if above.size else 1

    def record(self, target: float) -> dict[str, int]:
        """The least M that the lower bounds admit, ready for JSON."""
        return {
            "rows": self.eigenvalues.size,
            "N-low": self.needed(self.any_y, target),
            "N-lowprior": self.needed(self.prior, target),
        }


def sentence(record: dict[str, int]) -> str:
    """Both lower bounds as one sentence each."""
    return (
        f"Lower bounds for {record['rows']} rows, with this kernel and noise: fewer than {record['N-low']} inducing "
        f"variables do not reach the level for any y (N-low); fewer than {record['N-lowprior']}, chosen without y, do "
        "not reach it on average over y from the prior (N-lowprior)."
    )


# Bounds on the log evidence of the rows, for increasing numbers of chosen inducing points.


@dataclass(frozen=True)
class Brackets:
    """Lower and upper bound on log p(y) for each M, and log p(y) itself if N is small enough.

    Attributes
    ----------
    method : str
    N : int
    M : list of int
    bounds : list of (Bound, Bound)
    exact : float or None
    """

    method: str
    N: int
    M: list[int]
    bounds: Sequence[tuple[Bound, Bound]]
    exact: float | None

    @property
    def elbo(self) -> list[float]:
        """The variational bound at each M."""
        return [float(lower.terms.get("elbo 1", lower.value)) for lower, _ in self.bounds]

    def divergence(self, alpha: float, direction: str = "q||p") -> Float:
        """D_α[q*‖p] ≤ α·KL = α(log p(y) − ELBO) ≤ α(upper bound − ELBO) at each M (N-conc); [p‖q*] by R-dir."""
        from gpbounds.renyi import direction_factor

        factor = alpha * (1.0 if direction == "q||p" else direction_factor(alpha))
        return factor * np.array([float(upper) - elbo for elbo, (_, upper) in zip(self.elbo, self.bounds, strict=True)])

    @property
    def drawn(self) -> Any:
        """The record that `gpbounds.plotting` draws."""
        from gpbounds import plotting

        lower, upper = ([float(pair[index]) for pair in self.bounds] for index in (0, 1))
        return plotting.Bracket(self.method, self.M, self.elbo, lower, upper, self.exact)

    def rows(self) -> list[tuple[str, ...]]:
        """A table: M, ELBO, lower bound, upper bound, its claim, width."""
        return [
            (
                *(str(M), f"{float(elbo):.6g}", outward(float(lower), "lower"), outward(float(upper), "upper")),
                *(f"{upper - lower:.3g}", upper.claim),
            )
            for M, elbo, (lower, upper) in zip(self.M, self.elbo, self.bounds, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {
            "method": self.method,
            "N": self.N,
            "M": self.M,
            "elbo": self.elbo,
            "lower": [lower.to_dict() for lower, _ in self.bounds],
            "upper": [upper.to_dict() for _, upper in self.bounds],
            "exact": self.exact,
            "KL at most": self.divergence(1.0),
        }


def brackets(
    kernel: Kernel,
    data: TableRows,
    noise: float,
    counts: list[int],
    *,
    method: str,
    rows: int,
    seed: int,
    rigor: str = "auto",
    progress: bool = False,
) -> Brackets:
    """`Brackets` for the sizes in ``counts`` that exist; with log p(y) and all bounds if there are at most ``rows``
    rows.

    With ``rigor="sharp"`` those in O(NM²), and log p(y), with all rounding proved.
    """
    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.renyi import evidence, log_evidence
    from gpbounds.renyi.members import BLOCKS, CHEAP

    chooser = Chooser(kernel, data.X, method, seed)
    proved, whole = rigor == "sharp", data.N <= rows
    members = "cheap" if proved else (*CHEAP, *BLOCKS) if whole else CHEAP  # those that depend on the inducing points
    options: dict[str, Any] = {"noise": noise, "rigor": rigor}
    sizes, pairs = [], []
    shown = on_terminal(progress)
    for M in bar(f"Evidence, {chooser.name}", len(counts), "subset", shown, iterable=counts):
        try:
            pairs.append(evidence(kernel, data.X, data.y, chooser.points(M), members=members, **options))
        except (NotPositiveDefinite, NoSuchSubset):
            break
        sizes.append(M)
    exact = None
    if whole and proved:
        exact = float(evidence(kernel, data.X, data.y, None, **options)[0])
    elif whole:
        exact = log_evidence(kernel, data.X, data.y, noise=noise)
    return Brackets(chooser.name, data.N, sizes, pairs, exact)


def ladder(last: int, several: int = 12) -> list[int]:
    """Whole numbers from 1 to ``last``: ``several`` equally spaced in the logarithm, and half as many equally spaced.

    >>> ladder(100, 5)
    [1, 3, 10, 32, 50, 100]
    """
    both = np.concatenate([np.geomspace(1, last, several), np.linspace(1, last, several // 2 + 1)])
    return [int(M) for M in np.unique(np.rint(both))]
