"""The certificate: it is issued from data, saved, loaded and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.losses.base import as_loss
from gpbounds.pacbayes.certificate import checking, priors, statement
from gpbounds.pacbayes.certificate.declarations import (
    Charge,
    DeclaredMean,
    Scaling,
    as_charges,
    as_mean,
    as_scalings,
    for_loss,
)
from gpbounds.pacbayes.certificate.of_predictions import CoverageCertificate, HeldOutCertificate
from gpbounds.pacbayes.certificate.posteriors import Posterior
from gpbounds.pacbayes.certificate.rows import raw
from gpbounds.pacbayes.certificate.sealed import Label, encoded, read_record, software
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.pacbayes.certificate.statement import Report, RiskStatement, for_mean_prediction
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.validation import choice, flag, instance, positive_unit

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
    With a `Split` the prior, its θ included, comes from the prior's rows, and N counts the other rows (N-data-prior).

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
        split: Split | None = None,
        predictor: str = "gibbs",
        classes: Sequence[Label] | None = None,
    ) -> Certificate:
        """Evaluate R_S, KL and the bound of a Q, and record them.

        Parameters
        ----------
        X : array (N, D)
            Raw inputs, float64.  Or rows that are read by partitions, as `gpbounds.rows.source` takes them, for a
            sparse Q.  The certificate is about the rows and their order, however they are read.
        y : array (N,)
            Raw targets, float64, or as `gpbounds.rows.source` takes them.
        posterior : Exact, Sparse, Free, Whitened or Updated
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
        split : Split, optional
            Which rows are the prior's; the others are certified.  None: all are.
        predictor : "gibbs" or "mean"
            "mean" bounds the risk of the mean prediction, for losses that are 0 or 1: min(2B, 4T), T the bound on the
            tandem risk; both hold together, for ln 2 (P-38, N-tandem).
        classes : sequence of two labels, optional
            For y of labels, and a loss of −1 and 1, such as `gpbounds.losses.Sign`: the first label is −1.

        Raises
        ------
        ValueError
            for a θ off the grid, a scaling from the same data without ``nonrigorous``, an infinite KL, and wrong
            arguments.
        NotPositiveDefinite
            where Q cannot be built.
        """
        labels = None if classes is None else tuple(classes)
        rows = raw(X, y if labels is None else encoded(y, labels, signs=True))
        inputs, outputs = as_scalings(inputs, outputs)
        paid = as_charges(charges)
        instance("grid", grid, HyperGrid, "a HyperGrid")
        flag("nonrigorous", nonrigorous)
        _require_kinds(posterior, loss, (inputs, outputs), mean, split, nonrigorous)
        if choice("predictor", predictor, ("gibbs", "mean")) == "mean":
            for_mean_prediction(loss)
        for_loss(mean, loss)
        failure = positive_unit("delta", delta)
        if failure.ndim or failure >= 1.0:
            raise ValueError(f"delta: expected one number in (0, 1), got {shown(delta)}")
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
            versions=software(),
            mean=mean,
            split=split,
            classes=labels,
            tandem=1.0 if predictor == "mean" else None,
        )
        computed = checking.to_issue(draft, rows.certified(split))
        kl, risk = computed.kl + SLACK * computed.kl_error, min(computed.risk + SLACK * computed.risk_error, 1.0)
        if not np.isfinite(kl):
            raise ValueError(
                "posterior: expected a Q whose KL(Q‖P) is finite and known beyond rounding, got infinity. Usual cause: "
                "inducing inputs so close that Kuu is nearly singular (take fewer), or a noise "
                "variance that is small against the rounding of K"
            )
        tandem = None if predictor == "gibbs" else min(computed.tandem + SLACK * computed.tandem_error, 1.0)
        record = replace(draft, posterior=posterior.with_jitter(computed.jitter), risk=risk, kl=kl, tandem=tandem)
        return replace(
            record,
            log_count=statement.log_count(record.count),
            log_xi=statement.log_xi(record.rows, record.delta),
            bound=record.least_bound(risk, kl, tandem),
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
        flag("rigorous", rigorous)
        return checking.check(self, raw(X, self.encode(y)), rigorous=rigorous)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read a certificate of any kind, strictly: `Certificate`, `HeldOutCertificate` or `CoverageCertificate`.

        Raises
        ------
        ValueError
            for a file that is not a certificate of this schema; the message names the field and the expected value.
        OSError
            for a file that cannot be read.
        """
        return read_record(path, (cls, HeldOutCertificate, CoverageCertificate))


def _require_kinds(
    posterior: Any,
    loss: Any,
    scalings: tuple[Any, Any],
    mean: Any,
    split: Any,
    nonrigorous: bool,
) -> None:
    """Refuse arguments of `Certificate.issue` of other kinds, and scalings that depend on the certified rows."""
    if not (nonrigorous or all(scaling.rigorous for scaling in scalings)):
        raise ValueError(
            "inputs, outputs: expected a scaling fixed in advance, from disjoint data or charged; got 'same data': "
            "prior and loss then depend on the data, and no bound follows (P-45). Scale with other data, or pass "
            "nonrigorous=True for a record that says so in its first line"
        )
    as_loss(loss)
    instance("posterior", posterior, Posterior, "Exact, Sparse, Free, Whitened or Updated")
    instance("split", split, (Split, type(None)), "a Split or None")
    as_mean(mean)
