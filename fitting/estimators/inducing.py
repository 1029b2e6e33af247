"""Estimators with inducing points: how they are chosen, and that training moves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fitting.estimators.base import GaussianProcess
from fitting.estimators.trainer import Outcome, Trainer, with_inducing
from fitting.objectives.point import Parameters
from fitting.starts.starts import choose_inducing
from fitting.training import Run
from gpbounds.arrays import Float, as_points, host
from gpbounds.kernels import Kernel
from gpbounds.validation import array_module, choice, count

WAYS = ("auto", "greedy", "kdpp", "kmeans", "uniform")

USUAL = 100
"""Number of inducing points by which the rows of the default start are chosen for ``n_inducing="auto"``."""


@dataclass(eq=False, repr=False, kw_only=True)
class WithInducing(GaussianProcess):
    """Estimators with M inducing inputs, which are chosen by a method or passed.

    ``inducing="auto"`` takes centres of clusters of the rows (k-means).  Greedy points lie far from most rows: training
    from them takes longer and ends at a lower objective (`benchmarks/README.md`).

    Attributes
    ----------
    inducing_ : array (M, D)
        Inducing inputs Z.
    """

    n_inducing: Any = 100
    inducing: Any = "auto"
    learn_inducing: bool = True
    _ways: ClassVar[tuple[str, ...]] = WAYS  # that ``inducing`` may name

    @property
    def log_marginal_likelihood(self) -> Any:
        """An error with what there is instead: a model with inducing points does not compute log p(y).

        Raises
        ------
        AttributeError
        """
        raise AttributeError(
            f"log_marginal_likelihood: a {type(self).__name__} does not compute log p(y), ExactGP does: "
            "log_evidence_bounds() has a lower and an upper bound on it, for Gaussian noise"
        )

    @property
    def _way(self) -> str:
        """The method by which points are chosen."""
        return "kmeans" if self.inducing == "auto" else str(self.inducing)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, self._ways)
        if not isinstance(self.n_inducing, str):
            count("n_inducing", self.n_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, i)

        first = replace(start, Z=draw(start.kernel, 0))
        outcomes = trainer.best_of("sparse", first, self.n_restarts, with_inducing(draw))
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _rank(self, N: int) -> int:
        if not isinstance(self.inducing, str):
            return len(self.inducing)
        return USUAL if isinstance(self.n_inducing, str) else int(self.n_inducing)

    def _drawn(self, start: Parameters, X: Float, Y: Float, seed: int, i: int) -> Any:
        """The inducing points of start i by ``inducing`` and ``n_inducing``, on the device of training."""
        if isinstance(self.inducing, str):
            choice_seed = 0 if self.random_state is None and self._way == "kmeans" else seed  # as for pilot rows
            rng = np.random.default_rng([choice_seed & (2**63 - 1), 3, i])
            Z = self._chosen(start, X, Y, count("n_inducing", self.n_inducing), rng)
        else:
            Z = np.array(host(as_points(self.inducing, "inducing", X.shape[1])), dtype=np.float64)
        return array_module(self.device).asarray(Z)  # type: ignore[arg-type]

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        """M points by the method that ``inducing`` names."""
        return choose_inducing(start.kernel, X, M, self._way, rng)
