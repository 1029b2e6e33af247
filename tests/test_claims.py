"""The ledger as a user meets it: look a claim up, read it, learn from a typo."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.claims import Claim, find, ledger


def test_ledger_is_209_claims_of_papers_and_the_new_ones():
    ids = [claim.id for claim in ledger()]
    assert sum(not i.startswith("N-") for i in ids) == 209
    assert len(set(ids)) == len(ids)
    first = [
        *("N-conc", "N-range", "N-monoQ", "N-low", "N-F", "N-Fhat", "N-psi", "N-W", "N-G"),
        *("N-dpp", "N-thm", "N-dir", "N-se", "N-mat", "N-risk", "N-grid", "N-dom"),
        *("N-walk", "N-round", "N-tv", "N-lev", "N-moments", "N-quad", "N-block", "N-floor", "N-ritz", "N-student"),
        *("N-mean", "N-tail", "N-shell", "N-rff", "N-mercer"),
        *("N-cher", "N-shift", "N-flat"),
    ]
    assert [i for i in ids if i in first] == first


@pytest.mark.parametrize("claim", ledger(), ids=lambda claim: claim.id)
def test_a_claim_is_found_by_its_id_and_reads_well(claim):
    assert find(claim.id) is claim
    lines = str(claim).splitlines()
    assert lines[0] == f"{claim.id}: {claim.verdict} (section {claim.section})"
    assert max(map(len, lines)) <= 100
    words = " ".join(str(claim).split())
    for text in (claim.place, claim.statement, claim.printed, claim.sharper, claim.function, claim.check, claim.status):
        assert " ".join(text.split()) in words
    assert ("Printed:" in words) == bool(claim.printed)
    assert ("Sharper:" in words) == bool(claim.sharper)
    assert ("not built yet" in words) == (not claim.check)
    assert (f"Picture: {claim.picture}" in words) == bool(claim.picture)
    for text in (claim.proof, claim.source, claim.unproved, claim.sharper_proof):
        assert " ".join(text.split()) in words
    assert lines.count("") == 0


def test_the_status_of_a_claim_follows_from_its_proof():
    plain = Claim("R-x", "A", "a paper", "1 = 1", "holds")
    assert plain.status == "proved in the paper"
    assert dataclasses.replace(plain, source="another paper").status == "proved in the paper"
    assert dataclasses.replace(plain, proof="Count.").status == "proved here"
    assert dataclasses.replace(plain, unproved="No case violates it.").status == "checked numerically only"


def test_ledger_is_read_on_first_use_and_once():
    program = "from gpbounds.claims import ledger; a = ledger.cache_info().currsize; print(a, ledger() is ledger())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "True"]


def test_a_claim_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        find("R-eq8").verdict = "false"
    assert isinstance(ledger(), tuple)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("R-thm3", "R-thm2"), ("r-THM1", "R-thm1"), ("L-6", "L-06"), ("d-2", "D-02"), ("Rlem3", "R-lem3")],
)
def test_a_typo_is_answered_with_what_was_meant(typo, meant):
    with pytest.raises(ValueError, match=r"no claim .* in the ledger; close to it: ") as caught:
        find(typo)
    assert repr(typo) in str(caught.value)
    assert meant in str(caught.value).split("close to it: ")[1].split(", ")


@pytest.mark.parametrize("nonsense", ["", "∂", 7, None, ["R-thm1"]])
def test_nonsense_is_answered_with_the_form_of_an_id(nonsense):
    with pytest.raises(ValueError, match="no claim") as caught:
        find(nonsense)
    assert "R-thm1" in str(caught.value)


@given(st.text(max_size=12))
def test_whatever_is_not_an_id_is_a_value_error(text):
    if text not in {claim.id for claim in ledger()}:
        with pytest.raises(ValueError, match="no claim"):
            find(text)


def test_a_claim_is_built_when_something_computes_or_checks_it():
    plain = Claim("R-x", "A", "a paper", "1 = 1", "holds")
    assert not plain.built
    assert dataclasses.replace(plain, check="verification/test_x.py").built
    assert dataclasses.replace(plain, function="math.sqrt").built


def test_a_claim_survives_json():
    assert [Claim(**entry) for entry in json.loads(json.dumps([dataclasses.asdict(c) for c in ledger()]))] == [
        *ledger()
    ]


def test_false_claims_show_what_is_true_instead():
    claim = find("L-08")
    assert claim.verdict == "misprint"
    assert "(1−γ)K₂" in claim.statement
    assert "(1+γ)K₂" in claim.printed
    # The printed form at its own counterexample, N=1: below zero, where no divergence can be; the corrected one is not.
    k1 = k2 = 2.0
    noise = gamma = 1.0
    assert (k1 - (1 + gamma) * k2 + gamma * noise) / (2 * noise) == -0.5
    assert (k1 - (1 - gamma) * k2 + gamma * noise) / (2 * noise) >= 0
