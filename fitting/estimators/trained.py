"""One model trained by its bound: where training ended, where it stands on the grid, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitting.bounds import Terms
from fitting.estimators.trainer import Outcome
from fitting.parameters import Parameters
from fitting.training import Run
from gpbounds.pacbayes import Certificate


@dataclass(frozen=True, eq=False)
class Trained:
    """A model and its certificate.

    Attributes
    ----------
    free, last : Outcome
        Of free training, and of training at the rounded hyperparameters, or None where Ctrl-C left that out.
    runs : tuple of Run
        All of them.
    point : Parameters
        On the grid.
    terms : Terms
        There.
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

    def complaints(self, batches: bool) -> list[str]:
        """What is not as one hopes, sentence by sentence; steps on mini-batches are a budget and may run out."""
        said = [run.reason for run in self.runs if run.status == "interrupted"]
        for end in self.ends:
            if end.run.status == "stalled" or (end.run.status == "iterations" and not batches):
                said.append(end.run.reason)
        names = self.point.kernel.parameter_names
        for side, first, last in (
            ("lower", self.free.low, self.ends[-1].low),
            ("upper", self.free.high, self.ends[-1].high),
        ):
            if own := [name for name in first if name in names]:
                said.append(
                    f"At the {side} edge of the grid: {', '.join(own)}. Another grid, or other units, must be fixed "
                    "before the data are seen."
                )
            if "noise" in last:
                said.append(f"At the {side} limit: noise. Fix it, or widen `limits`.")
        if self.certificate.bound >= 1.0:
            said.append("The bound is 1 and says nothing: it takes more data, a coarser grid or a larger ε.")
        return said


def complaints(found: Sequence[Trained], batches: bool) -> list[str]:
    """Those of all models, each with its loss where there are several."""
    several = len(found) > 1
    said = [
        f"{each.certificate.loss!r}: {sentence}" if several else sentence
        for each in found
        for sentence in each.complaints(batches)
    ]
    after = next((i + 1 for i, each in enumerate(found) if each.interrupted), len(found))
    if after < len(found):
        rest = ", ".join(repr(each.certificate.loss) for each in found[after:])
        said.append(f"Not trained for {rest}: certified for the model that was interrupted.")
    return said
