"""Lower and upper bounds on the log evidence of a data set, for increasing numbers of chosen inducing points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds import plotting
from gpbounds.arrays import Float
from gpbounds.bound import Bound, outward
from gpbounds.cli.data import Data
from gpbounds.cli.selection import Chooser, NoSuchSubset
from gpbounds.kernels import Kernel


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
    def drawn(self) -> plotting.Bracket:
        """The record that `gpbounds.plotting` draws."""
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
    data: Data,
    noise: float,
    counts: list[int],
    *,
    method: str,
    rows: int,
    seed: int,
    rigor: str = "auto",
) -> Brackets:
    """`Brackets` for the sizes in ``counts`` that exist; with log p(y) and all bounds if there are at most ``rows``
    rows.

    With ``rigor="sharp"`` those in O(NM²), and log p(y), with all rounding proved.
    """
    from tqdm import tqdm

    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.renyi import evidence, log_evidence
    from gpbounds.renyi.members import BLOCKS, CHEAP

    chooser = Chooser(kernel, data.X, method, seed)
    proved, whole = rigor == "sharp", data.N <= rows
    members = "cheap" if proved else (*CHEAP, *BLOCKS) if whole else CHEAP  # those that depend on the inducing points
    options: dict[str, Any] = {"noise": noise, "rigor": rigor}
    sizes, pairs = [], []
    for M in tqdm(counts, desc=f"Evidence, {chooser.name}", unit="subset", leave=False, disable=None):
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
