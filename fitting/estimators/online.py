"""The state of an optimiser between calls of ``partial_fit``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fitting.estimators.remarks import Remark
from fitting.objectives.losses import Sampling
from fitting.objectives.objective import Objective
from fitting.objectives.packing import Packing
from fitting.objectives.point import Parameters
from fitting.training import Steps
from fitting.training.watch import FAULTS, measured, no_start
from gpbounds.arrays import Float
from gpbounds.linalg.parallel import one_blas_thread


@dataclass(eq=False)
class Online:
    """The vector of a model that batches train one after the other, and the state of its optimiser.

    Attributes
    ----------
    packing : Packing
        The point of the vector.
    steps : Steps
    rng : numpy.random.Generator
        For sampled gradients.
    N : int
        The number of rows that each batch stands for.
    jitter : float
    values : list of float
        The estimate of −J by each batch, before its step; −inf where J had no value.
    """

    packing: Packing
    steps: Steps
    rng: np.random.Generator
    N: int
    jitter: float
    values: list[float] = field(default_factory=list)
    _kept: Float | None = None

    def step(self, batch: Objective, sampling: Sampling | None) -> None:
        """One step by the losses of ``batch``, counted N/n times; back to the point before where J has no value."""
        problem = batch.standing_for(self.N)
        if sampling is not None:
            problem = problem.sampled(sampling, int(self.rng.integers(2**63)))
        with one_blas_thread():
            f, g, fault = measured(self.packing.loss(problem), self.steps.x)
        self.values.append(-f)
        if fault is None:
            self._kept = self.steps.x
            self.steps.take(g)
        elif self._kept is None:
            raise no_start(fault) from fault
        else:
            self.steps.back(self._kept)

    def settle(self, problem: Objective) -> Parameters:
        """The point after the last step; the one before where its Kuu does not factorise."""
        point = self.packing.unpack(self.steps.x)
        try:
            problem.posterior_at(point)
        except FAULTS:
            assert self._kept is not None
            self.steps.back(self._kept)
            point = self.packing.unpack(self._kept)
        return point

    def remarks(self) -> list[Remark]:
        """A remark if the last step had no value."""
        text = "The objective had no value for the last batch; the point before is kept, and the step length is halved."
        return [Remark("stalled", text)] if self.steps.failed else []
