"""The certificate: it is issued from data, saved, loaded and checked."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.files import replacing
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes.certificate import checking, priors, statement
from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, Scaling, for_loss
from gpbounds.pacbayes.certificate.posteriors import Posterior
from gpbounds.pacbayes.certificate.rows import raw
from gpbounds.pacbayes.certificate.statement import FORMAT, SCHEMA, Report, RiskStatement
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.records import TRUTH, Fields, Format, read_json, to_json
from gpbounds.validation import positive_unit

SLACK = 8.0
"""Stated R_S and KL exceed the computed ones by this many allowances: another machine's values differ by up to one,
and its own allowance may be larger."""


@dataclass(frozen=True, eq=False)
class Certificate(RiskStatement):
    """An upper bound on the Gibbs risk of a GP posterior Q, with everything that a third party needs to recompute it.

    With probability ≥ 1 − δ over the data, R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + Σ ln(charges) + ln(ξ(N)/δ))/N).

    Claims P-14, P-44, P-45, P-47, P-49 (Reeb et al., PAC-GP, Eq. 5, §3).  Hypotheses: iid rows, a loss in [0, 1], and
    loss, δ, kernel family, grid, scaling and mean fixed before the data were seen, or charged.  A file cannot prove
    that choices were fixed in advance, so `check` prints this declaration first.  Q is rebuilt at a θ *on* the grid.

    `issue` creates a certificate (`issue_certificate` is the whole procedure), `save` and `load` store it, `check`
    checks it.
    """

    @classmethod
    def issue(
        cls,
        X: Any,
        y: Any,
        posterior: Posterior,
        kernel: Kernel,
        *,
        grid: HyperGrid,
        loss: Loss,
        delta: float,
        inputs: Scaling | None = None,
        outputs: Scaling | None = None,
        mean: DeclaredMean | None = None,
        charges: Iterable[Charge] = (),
        nonrigorous: bool = False,
    ) -> Certificate:
        """Evaluate R_S, KL and the bound of a Q, and record them.

        Parameters
        ----------
        X : array (N, D)
            Raw inputs, float64.  Or rows that are read by partitions, as `gpbounds.rows.source` takes them, for a
            sparse Q.  The certificate is about the rows and their order, however they are read.
        y : array (N,)
            Raw targets, float64, or as `gpbounds.rows.source` takes them.
        posterior : Exact, Sparse, Free or Whitened
            The record that defines Q, in the units of the scaled data.
        kernel : Kernel
            The prior's, with hyperparameters on the grid: any kernel of `gpbounds.kernels` (Matérn of half-integer ν),
            sums, products and kernels on columns.  A linear or polynomial kernel has finite rank; the exact posterior
            and its KL need no jitter, and more inducing points than the rank do.
        grid : HyperGrid
        loss : Loss
        delta : float in (0, 1)
            Probability of failure.
        inputs, outputs : Scaling, optional
            How the raw data were scaled; "as given" by default.
        mean : DeclaredMean, optional
            The prior's mean, in the units of the scaled data; 0 by default.  Q is that of the targets minus the mean.
        charges : sequence of Charge
            Choices made after seeing the data, from lists made before.
        nonrigorous : bool
            Allow constants from the same data; the certificate then says in its first line that it is no guarantee.

        Raises
        ------
        ValueError
            for a θ off the grid, a scaling from the same data without ``nonrigorous``, an infinite KL, and wrong
            arguments.
        NotPositiveDefinite
            where Q cannot be built.
        """
        rows = raw(X, y)
        inputs, outputs = inputs or Scaling(), outputs or Scaling()
        paid = tuple(charges)
        for name, scaling in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(scaling, Scaling):
                raise ValueError(f"{name}: expected a Scaling, got {type(scaling).__name__}")
        if not all(isinstance(charge, Charge) for charge in paid):
            raise ValueError(f"charges: expected a sequence of Charge, got {charges!r}")
        if not (nonrigorous or (inputs.rigorous and outputs.rigorous)):
            raise ValueError(
                "inputs, outputs: expected a scaling fixed in advance, from disjoint data or charged; got 'same data': "
                "prior and loss then depend on the data, and no bound follows (P-45). Scale with other data, or pass "
                "nonrigorous=True for a record that says so in its first line"
            )
        if not isinstance(loss, Loss):
            raise ValueError(f"loss: expected a Loss of gpbounds.losses, got {type(loss).__name__}")
        if not isinstance(posterior, Posterior):
            raise ValueError(f"posterior: expected Exact, Sparse, Free or Whitened, got {type(posterior).__name__}")
        if not isinstance(mean, DeclaredMean | None):
            raise ValueError(f"mean: expected a DeclaredMean or None, got {type(mean).__name__}")
        for_loss(mean, loss)
        failure = positive_unit("delta", delta)
        if failure.ndim or failure >= 1.0:
            raise ValueError(f"delta: expected one number in (0, 1), got {delta!r}")
        point = priors.locate(kernel, grid)
        draft = cls(
            loss=loss,
            delta=float(failure),
            grid=grid,
            indices=point.indices,
            kernel=kernel,
            posterior=posterior,
            inputs=inputs,
            outputs=outputs,
            charges=paid,
            data=rows.fingerprint,
            risk=1.0,
            kl=0.0,
            log_count=0.0,
            log_xi=0.0,
            bound=1.0,
            versions=_versions(),
            mean=mean,
        )
        computed = checking.to_issue(draft, rows)
        kl, risk = computed.kl + SLACK * computed.kl_error, min(computed.risk + SLACK * computed.risk_error, 1.0)
        if not np.isfinite(kl):
            raise ValueError(
                "posterior: expected a Q whose KL(Q‖P) is finite and known beyond rounding, got infinity. Usual cause: "
                "inducing inputs so close that Kuu is nearly singular (take fewer, or a larger jitter), or a noise "
                "variance that is small against the rounding of K"
            )
        record = replace(draft, posterior=posterior.with_jitter(computed.jitter), risk=risk, kl=kl)
        N, count = record.data.rows, record.count
        return replace(
            record,
            log_count=statement.log_count(count),
            log_xi=statement.log_xi(N, record.delta),
            bound=statement.risk_bound(risk, kl, count, N, record.delta),
        ).sealed()

    def check(self, X: Any, y: Any = None, *, rigorous: bool = False) -> Report:
        """Recompute everything from the data and report line by line.

        The lines are: the fingerprint of the raw data, the place of θ in the grid, R_S and KL with an allowance for
        their rounding, the penalties, and the bound, enclosed in Arb.  A certificate is confirmed when every line
        holds; for the bound: upper end ≤ stated bound.  Declarations, which no file can prove, come first.

        A stated R_S or KL is confirmed if it is proved to be large enough.  Double precision proves it where its
        errors are small (N-rounded-kl, N-rounded-exact); of exponentials and normal distribution functions it
        supposes an accuracy of a few units in the last place.  Where the stated number lies within these errors, or
        none is proved, 30 digits decide, for N rows and M ≤ 1500 inducing inputs with NM² ≤ 2e9, or 2000 rows of an
        exact posterior.  ``rigorous`` proves R_S and KL without that supposition (N-proved-kl, N-proved-risk): kernel
        entries and matrix products in double-double numbers with proved errors, factorisations verified after the
        fact (N-verified), Gaussian means of the loss in Arb.  The report then says between which numbers R_S and KL
        lie, which bound follows, and how much the bound moves; it confirms the stated bound if that is at least the
        proved one.  What cannot be proved is a line that failed, in one sentence.  The proof takes 2 to 15 times as
        long as the rest, and about 120 N² bytes for the exact posterior.

        Parameters
        ----------
        X, y : arrays (N, D) and (N,), or as `gpbounds.rows.source` takes them
            The raw data.
        rigorous : bool
            Prove R_S and KL as well.

        Raises
        ------
        ValueError, NonFinite
            for arrays of wrong shapes or kinds; data that differ from the certified ones give a line that failed.
        """
        return checking.check(self, raw(X, y), rigorous=rigorous)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; `load` gives back the same doubles."""
        text = to_json(self.to_dict(), indent=1, ascii=False, flat=True)
        with replacing(path) as file:
            file.write(text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a file that `save` wrote, strictly.

        Raises
        ------
        ValueError
            for a file that is not a certificate of this schema; the message names the field and the expected value.
        OSError
            for a file that cannot be read.
        """
        name = os.fspath(path)
        record = read_json(path, "a certificate")
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError(f'{name}: expected a certificate, a JSON object with "format": "{FORMAT}"')
        if record.get("schema") != SCHEMA or isinstance(record["schema"], bool):
            got = repr(record.get("schema"))[:60]
            raise ValueError(f"{name}: expected schema {SCHEMA}, got {got}: written by another version of gpbounds")
        try:
            return cls.from_dict(record)
        except (ValueError, ArithmeticError, RecursionError) as error:
            words = " ".join(str(error).split())
            raise ValueError(f"{name}: {words if len(words) <= 500 else f'{words[:500]} ...'}") from None

    @classmethod
    def from_dict(cls, record: Any, where: str = "certificate") -> Certificate:
        """The certificate whose `to_dict` is ``record``; a ValueError names the field that is wrong."""
        fields = Fields(record, where)
        for name in ("format", "schema"):
            fields.take(name)
        rigorous = fields.take("rigorous", TRUTH.read)
        arguments = Format(cls, cls.stored).arguments(fields)
        fields.done()
        if rigorous != (arguments["inputs"].rigorous and arguments["outputs"].rigorous):
            raise ValueError(f"{where}.rigorous: expected {not rigorous}, as the scalings imply, got {rigorous}")
        return cls(**arguments)

    def sealed(self) -> Certificate:
        """The record with a fresh seal."""
        return replace(self, seal=self.fresh_seal())


def _versions() -> dict[str, str]:
    import flint
    import scipy

    import gpbounds

    packages = {"gpbounds": gpbounds, "numpy": np, "scipy": scipy, "python-flint": flint}
    return {"python": platform.python_version(), **{name: str(p.__version__) for name, p in packages.items()}}
