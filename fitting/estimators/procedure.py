"""The procedure that keeps a trained bound valid (P-44): train, round to the grid, train the rest there, certify.

A grid Θ is fixed before the data are seen; hyperparameters, noise, inducing inputs and free parameters are trained
within its box; θ is rounded to Θ; the other parameters are trained again at the rounded θ; R_S and KL are evaluated on
all N rows, and the certificate is issued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.bounds import Terms
from fitting.estimators.kinds import Forms, Kind
from fitting.estimators.remarks import Remark, of_interruptions, of_limits, of_noise, of_run
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.goals import Target
from fitting.objectives.point import Parameters
from fitting.training import Run
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import AUTO_LADDER
from gpbounds.pacbayes import Certificate, HyperGrid, bound
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.rows import Raw

WORTH = 1e-4
"""Larger jitters are tried if rounding costs more than this share of the bound; the smallest bound is kept."""

PATIENCE = 3
"""Number of jitters in a row without a smaller bound after which no larger jitter is tried."""


@dataclass(frozen=True, eq=False)
class Certified:
    """A model and its certificate.

    Attributes
    ----------
    free, last : Outcome
        Results of training before rounding and at the rounded hyperparameters; ``last`` is None if Ctrl-C prevented it.
    runs : tuple of Run
        All runs of the optimiser.
    point : Parameters
        The final point, on the grid.
    terms : Terms
        Risk, KL and bound at ``point``.
    certificate : Certificate
    """

    free: Outcome
    last: Outcome | None
    runs: tuple[Run, ...]
    point: Parameters
    terms: Terms
    certificate: Certificate

    @property
    def ends(self) -> list[Outcome]:
        """The one or two outcomes that led to ``point``."""
        return [self.free, *(() if self.last is None else (self.last,))]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended one of its runs."""
        return any(run.status == "interrupted" for run in self.runs)

    def remarks(self, batches: bool, start: str) -> list[Remark]:
        """Remarks on the training from ``start``; using all steps is no remark for mini-batches."""
        remarks = of_interruptions(self.runs)
        for end in self.ends:
            remarks += of_run(end.run, batches)
        remarks += of_noise(self.free.parameters, start) if self.free.noise else []
        names, last = self.point.kernel.parameter_names, self.ends[-1]
        for kind, edge, first in (
            ("lower limit", "lower", self.free.low),
            ("upper limit", "upper", self.free.high),
        ):
            if at_edge := tuple(name for name in first if name in names):
                text = (
                    f"At the {edge} edge of the grid: {', '.join(at_edge)}. Another grid, or other units, must be "
                    "fixed before the data are seen."
                )
                remarks.append(Remark(kind, text, at_edge))  # type: ignore[arg-type]
        low, high = (tuple(name for name in after if name == "noise") for after in (last.low, last.high))
        remarks += of_limits(low, high)
        if self.certificate.bound >= 1.0:
            text = "The bound is 1 and says nothing. Use more data, a coarser grid or a larger ε."
            remarks.append(Remark("vacuous", text))
        return remarks


def certified(
    kind: Kind,
    trainer: Trainer,
    outcome: Outcome,
    runs: Sequence[Run],
    raw: Raw,
    grid: HyperGrid,
    delta: float,
    declared: dict[str, Any],
) -> Certified:
    """Round the ``outcome`` of training to the grid, train the other parameters there, and issue the certificate."""
    problem: Any = trainer.objective
    goal = problem.goal
    assert isinstance(goal, Target)
    free = outcome.parameters.kernel
    kernel = priors.with_hyperparameters(free, grid.round(priors.hyperparameters(free)))
    points, last = [replace(outcome.parameters, kernel=kernel)], None
    if not (outcome.run.state.get("kept") or any(run.status == "interrupted" for run in runs)):
        last = replace(trainer, fixed=(*kernel.parameter_names, *trainer.fixed)).run("on the grid", points[0])
        points.append(
            replace(last.parameters, kernel=kernel)
        )  # the round trip through logarithms may change the last bit
        runs = [*runs, last.run]
    terms = [problem.terms_at(point) for point in points]
    problem.data.space.release()
    paid = goal.log_prior_penalty
    values = [float(bound(each.risk, each.kl, goal.N, delta=delta, log_prior_penalty=paid)) for each in terms]
    best = int(np.argmin(values))
    certificate = issue(
        raw,
        kind.forms(points[best]),
        terms[best].jitter,
        values[best],
        kernel,
        grid=grid,
        delta=delta,
        **declared,
    )
    return Certified(outcome, last, tuple(runs), points[best], terms[best], certificate)


def issue(rows: Raw, forms: Forms, jitter: float, unrounded: float, kernel: Kernel, **declared: Any) -> Certificate:
    """The certificate of Q with this ``jitter``, or with a larger one if rounding makes the bound useless.

    A jitter on Kuu is part of Q and of the prior of u, not of the prior of f: every jitter is valid, and its choice
    costs nothing (P-29, P-49).  If Kuu is nearly singular, its rounding errors cannot be bounded, or their bound makes
    the recorded KL large.

    Parameters
    ----------
    rows : Raw
        The raw data.
    forms : function jitter ↦ Q
    jitter : float
        The first jitter that is tried.
    unrounded : float
        The bound with this jitter, without allowances for rounding.
    kernel : Kernel
        Its hyperparameters lie on the grid.
    declared
        Further arguments of `Certificate.issue`.
    """
    rungs = [step * kernel.max_variance for step in AUTO_LADDER]
    best: Certificate | None = None
    fault: Exception | None = None
    idle = 0
    for amount in [jitter, *(rung for rung in rungs if rung > jitter)]:
        try:
            certificate = Certificate.issue(rows, None, forms(amount), kernel, **declared)
        except (NotPositiveDefinite, ValueError) as error:
            fault = fault or error
            continue
        if best is None or certificate.bound < best.bound:
            best, idle = certificate, 0
        else:
            idle += 1
        if idle == PATIENCE or best.bound <= unrounded * (1.0 + WORTH):
            break
    if best is None:
        assert fault is not None
        raise fault
    return best


def remarks_of(models: Sequence[Certified], batches: bool, start: str) -> list[Remark]:
    """The remarks of all models, trained from ``start``; if there are several, each remark starts with the loss."""
    remarks = []
    for each in models:
        model_remarks = each.remarks(batches, start)
        if len(models) > 1:
            model_remarks = [
                replace(remark, text=f"{each.certificate.loss!r}: {remark.text}") for remark in model_remarks
            ]
        remarks += model_remarks
    after = next((i + 1 for i, each in enumerate(models) if each.interrupted), len(models))
    if after < len(models):
        untrained = ", ".join(repr(each.certificate.loss) for each in models[after:])
        remarks.append(
            Remark("untrained", f"Not trained for {untrained}: the certificate is for the interrupted model.")
        )
    return remarks
