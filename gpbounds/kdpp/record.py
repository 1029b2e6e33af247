"""What a choice of inducing points is, and what it reaches."""

from __future__ import annotations

from dataclasses import dataclass

from gpbounds.arrays import Float, Indices
from gpbounds.bound import Bound


@dataclass(frozen=True, eq=False)
class Selection:
    """Inducing points, how they were chosen, and what they reach.

    Attributes
    ----------
    method : str
    indices : array of int64 (m,) or None
        Row numbers in the data, distinct, in the order of choice ("kdpp": increasing); None for "kmeans".
    Z : array (m, D)
        The inducing points.
    trace : float
        T = Tr(K − Q), from the diagonal of the residual.
    log_det : float
        log|K_ZZ|, of K_ZZ + jitter·I where there is jitter.
    law : str
        What the points are a draw of.
    traces : array (m + 1,) or None
        Tr(K − Q) of the first 0, 1, …, m points; None where the order means nothing ("kdpp", "kmeans").
    requested : float or None
        The trace that was asked for.
    tv : float or None
        Proved bound, in exact arithmetic, on the total variation between the law and the k-DPP of K: what the theorems
        take as ``tv``; 0 for an exact sample, None where nothing is proved.
    ridge : float or None
        The ridge of "leverage".
    jitter : float
        What was added to the diagonal of K_ZZ.
    objective : float or None
        Of "best" with y: the objective of the order asked for, in nats, without jitter where K_ZZ factorises.
    bound : Bound or None
        Of "best": what is proved of these points.
    """

    method: str
    indices: Indices | None
    Z: Float
    trace: float
    log_det: float
    law: str
    traces: Float | None = None
    requested: float | None = None
    tv: float | None = None
    ridge: float | None = None
    jitter: float = 0.0
    objective: float | None = None
    bound: Bound | None = None

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    @property
    def reached(self) -> bool:
        """False where a trace was asked for and all points allowed do not reach it."""
        return self.requested is None or self.trace <= self.requested

    def __str__(self) -> str:
        said = f"{self.M} inducing points, {self.method}: Tr(K - Q) = {self.trace:.6g}"
        if self.requested is not None:
            said += f" ({'<=' if self.reached else 'not'} the {self.requested:g} asked for)"
        lines = [f"{said}, log|K_ZZ| = {self.log_det:.6g}.", f"Law: {self.law}."]
        if self.tv:
            lines.append(f"Its total variation to the k-DPP of K is at most {self.tv:.3g}.")
        if self.jitter:
            lines.append(f"Jitter {self.jitter:.3g} on the diagonal of K_ZZ.")
        if self.bound is not None:
            lines.append(str(self.bound))
        return "\n".join(lines)
