"""The ledger matches the project: each claim that it calls built is checked, and each checked claim is built.

Claims and checks are joined by marks: a check carries ``@pytest.mark.claim("R-lem3")``, and the entry of R-lem3 in
``gpbounds/ledger.toml`` names the check's file under ``check`` and what it checks under ``function``.  The two tests
that compare all claims with all checks need all checks, so they skip unless the whole folder is collected.
"""

from __future__ import annotations

import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

from gpbounds.claims import STATUSES, VERDICTS, ledger, named_claims

LETTERS = {"R": 73, "L": 52, "P": 43, "D": 41}
HERE = Path(__file__).parent


@pytest.fixture
def files(request: pytest.FixtureRequest, marked: dict[str, list[str]]) -> dict[str, set[str]]:
    """Claim id -> files with a check marked with it; skips when some file of this folder was not collected."""
    missing = set(HERE.glob("test_*.py")) - {item.path for item in request.session.items}
    if missing:
        pytest.skip(f"needs the whole folder; not collected: {', '.join(sorted(path.name for path in missing))}")
    return {claim: {node.split("::")[0] for node in nodes} for claim, nodes in marked.items()}


def test_every_built_claim_is_checked_in_the_file_it_names(files: dict[str, set[str]]) -> None:
    faults = []
    for claim in ledger():
        if claim.built and not claim.check:
            faults.append(f"{claim.id} names a function but no check")
        elif claim.check and claim.check not in files.get(claim.id, set()):
            faults.append(f"{claim.id} names {claim.check}, where no check is marked with it")
    assert not faults, "\n".join(faults)


def test_every_checked_claim_names_its_check(files: dict[str, set[str]]) -> None:
    unnamed = {claim.id: files[claim.id] for claim in ledger() if claim.id in files and not claim.check}
    assert not unnamed, "\n".join(f'{i}: check = "{min(where)}"' for i, where in unnamed.items())


def test_every_mark_is_a_claim_of_the_ledger(marked: dict[str, list[str]]) -> None:
    ids = {claim.id for claim in ledger()}
    strangers = {i: nodes[0] for i, nodes in marked.items() if i not in ids}
    assert not strangers, "\n".join(f"{i!r} is not in the ledger: {node}" for i, node in strangers.items())


def test_every_picture_named_is_drawn_by_a_script_that_cites_the_claim() -> None:
    drawn = [claim for claim in ledger() if claim.picture]
    assert {claim.id[0] for claim in drawn} == {"R", "L", "P", "D", "N"}
    for claim in drawn:
        words = named_claims().findall((HERE.parent / claim.picture).read_text(encoding="utf-8"))
        assert claim.id in words, claim.id


def test_every_function_named_can_be_called() -> None:
    faults = []
    for claim in ledger():
        if claim.function:
            try:
                if not callable(pkgutil.resolve_name(claim.function)):
                    faults.append(f"{claim.id}: {claim.function} cannot be called")
            except (ImportError, AttributeError, ValueError) as error:
                faults.append(f"{claim.id}: {claim.function} ({error})")
    assert not faults, "\n".join(faults)


def test_ids_are_unique_and_complete() -> None:
    ids = Counter(claim.id for claim in ledger())
    assert not [i for i, times in ids.items() if times > 1]
    letters = Counter(i.split("-")[0] for i in ids)
    assert {letter: letters[letter] for letter in LETTERS} == LETTERS
    assert set(letters) == {*LETTERS, "N"}


def test_entries_are_complete() -> None:
    sections = {"R": "[A-I]", "N": "N", "L": r"L\.[1-6]", "P": r"P\.[1-4]", "D": r"D\.[1-5]"}
    for claim in ledger():
        letter = claim.id.split("-")[0]
        assert re.fullmatch(sections[letter], claim.section), claim.id
        assert claim.verdict in VERDICTS, claim.id
        assert (letter == "N") <= (claim.verdict == "new"), claim.id
        for text in (claim.place, claim.statement):
            assert text.strip(), claim.id
        for text in (claim.place, claim.statement, claim.printed, claim.sharper):
            assert "\n" not in text, claim.id
        assert claim.printed or claim.verdict not in ("false", "misprint"), claim.id


def test_every_claim_says_what_its_true_statement_rests_on() -> None:
    """New claims have a proof, or say that they have none; so do corrected ones, or they name the proof's place."""
    faults = []
    for claim in ledger():
        given = [name for name in ("proof", "source", "unproved") if getattr(claim, name).strip()]
        if len(given) > 1:
            faults.append(f"{claim.id} has {' and '.join(given)}; expected one of them")
        elif not given and claim.verdict in ("misprint", "false", "ill-defined", "new"):
            faults.append(f"{claim.id}: the paper does not prove the true statement; give proof, source or unproved")
        elif given == ["source"] and claim.verdict == "new":
            faults.append(f"{claim.id} is new; expected proof or unproved, got a source")
        elif claim.proof and re.search(r"docstring|\bgpbounds\.", claim.place + claim.proof):
            faults.append(f"{claim.id}: the ledger is the place of proofs, and this one names another")
        if bool(claim.sharper_proof) != bool(claim.sharper and not claim.proof):
            faults.append(f"{claim.id}: expected sharper_proof if and only if there is a sharper form and no proof")
        assert claim.status in STATUSES, claim.id
    assert not faults, "\n".join(faults)


def test_no_docstring_repeats_a_proof_of_the_ledger() -> None:
    """A docstring names the claim; its proof stands in the ledger, from which the documentation shows it."""

    def sentences(text: str) -> set[str]:
        return {each for each in re.split(r"(?<=[.:;]) ", " ".join(text.split())) if len(each) > 80}

    proved = {each: claim.id for claim in ledger() for each in sentences(claim.proof + " " + claim.sharper_proof)}
    faults = []
    for folder in ("gpbounds", "fitting"):
        for path in sorted((HERE.parent / folder).rglob("*.py")):
            repeated = sentences(path.read_text(encoding="utf-8")) & proved.keys()
            faults += [f"{path.name} repeats the proof of {proved[each]}: {each[:60]}…" for each in repeated]
    assert len(proved) > 300
    assert not faults, "\n".join(faults)


def test_verdicts_on_the_renyi_papers_add_up() -> None:
    verdicts = Counter(claim.verdict for claim in ledger() if claim.id.startswith("R-"))
    assert verdicts == {"holds": 40, "extra hypothesis": 6, "misprint": 5, "false": 17, "ill-defined": 5}


def test_claims_refer_to_claims_that_exist() -> None:
    ids = {claim.id for claim in ledger()}
    for claim in ledger():
        text = " ".join((claim.statement, claim.printed, claim.sharper, claim.proof, claim.source, claim.unproved))
        text += " " + claim.sharper_proof
        for reference in re.findall(r"\b(?:[LPD]-\d\d[a-c]?|[RN]-[a-z][\w-]*\w)", text):
            assert reference in ids, f"{claim.id} refers to {reference}"
