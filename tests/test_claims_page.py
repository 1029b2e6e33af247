"""The page of claims: the file holds every claim of the ledger, and a real browser filters, searches, follows links."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpbounds.claims import STATUSES, find, ledger
from gpbounds.pages import claims_page
from gpbounds.pages.claims import proof

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OBSERVED = {
    "R-thm1": {"cases": 25, "worst_slack": 0.5, "ratios": [1.5, 2.0, 9.0], "checks": ["verification/test_theorems.py"]},
    "L-06": {"cases": 1, "worst_slack": None, "counterexamples": ["Σ₁ = 1 & γ < 1"], "ratios": []},
}
ACTIONS = """
const shown = () => claims.filter(claim => !claim.hidden).map(claim => claim.id);
const choose = (name, value) => { field(name).value = value; form.dispatchEvent(new Event("input")); return shown(); };
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const result = {linked: document.activeElement.id, top: document.activeElement.getBoundingClientRect().top};
result.all = shown();
result.paper = choose("paper", "L");
result.both = choose("verdict", "false");
result.status = (form.reset(), choose("status", "checked numerically only"));
result.searched = (form.reset(), choose("search", "THM1"));
result.state = (form.reset(), choose("state", "checked in this run"));
result.count = count.value;
location.hash = "#P-14";
setTimeout(() => {
  result.opened = [document.activeElement.id, shown().length];
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "j", bubbles: true}));
  result.moved = document.activeElement.id;
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}));
  result.key = document.activeElement.id;
  result.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const output = document.createElement("pre");
  output.id = "result";
  output.textContent = JSON.stringify(result);
  document.body.append(output);
}, 50);
"""


@pytest.fixture(scope="module")
def page() -> str:
    return claims_page(OBSERVED)


def test_every_claim_is_in_the_file_with_its_statement_also_if_it_was_not_checked(page: str) -> None:
    articles = dict(re.findall(r'<article id="([^"]+)".*?<p class="statement">(.*?)</p>', page, re.DOTALL))
    assert list(articles) == [claim.id for claim in ledger()]
    assert all(html.unescape(articles[claim.id]) == claim.statement for claim in ledger())


def test_figures_stand_where_there_are_some_and_nothing_is_loaded_from_elsewhere(page: str) -> None:
    parts = {part.partition('"')[0]: part for part in page.split('<article id="')[1:]}
    assert "<dt>Cases tried</dt><dd>25</dd>" in parts["R-thm1"]
    assert parts["R-thm1"].count("<circle") == 3
    assert "Σ₁ = 1 &amp; γ &lt; 1" in parts["L-06"]
    assert all("<dt>Cases" not in part for claim, part in parts.items() if claim not in OBSERVED)
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "http" not in page


def test_claims_show_what_they_rest_on(page: str) -> None:
    parts = {part.partition('"')[0]: html.unescape(part) for part in page.split('<article id="')[1:]}
    for claim in ledger():
        shown = " ".join(parts[claim.id].split())
        assert f'data-status="{claim.status}"' in shown
        assert f">{claim.status}</span></h2>" in shown
        assert ("<dt>Unproved</dt>" in shown) == (claim.status == "checked numerically only")
        assert " ".join(proof(claim).split()) in re.sub(r"</?a[^>]*>", "", shown)
    assert proof(find("N-conc")) == find("N-conc").proof
    assert proof(find("R-thm-1")) == f"In the paper: {find('R-thm-1').place}."
    for status in STATUSES:
        assert f"{sum(claim.status == status for claim in ledger())} {status}" in page


def test_a_claim_links_to_its_picture() -> None:
    drawn = {claim.id: claim.picture for claim in ledger() if claim.picture}
    addresses = {
        script: f"../gallery/{script.rpartition('/')[2].removesuffix('.py')}.html" for script in drawn.values()
    }
    page = claims_page({}, pictures=addresses)
    parts = {part.partition('"')[0]: part for part in page.split('<article id="')[1:]}
    for claim, part in parts.items():
        links = re.findall(r'<dt>Picture</dt><dd><a href="([^"]+)"><code>([^<]+)</code></a></dd>', part)
        assert links == ([(addresses[drawn[claim]], drawn[claim])] if claim in drawn else []), claim


def browse(page: str, tmp_path: Path, size: str) -> tuple[dict, str]:
    """The page at #R-thm1 in a browser that then runs `ACTIONS`: their result, and what the console says."""
    file = tmp_path / "index.html"
    file.write_text(page.replace("</script>\n</body>", ACTIONS + "</script>\n</body>"), encoding="utf-8")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    words += [f"--window-size={size}", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000"]
    ran = subprocess.run(
        [*words, "--dump-dom", f"{file.as_uri()}#R-thm1"], capture_output=True, text=True, timeout=120, check=True
    )
    result = re.search(r'<pre id="result">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert result, ran.stderr[-2000:]
    return json.loads(html.unescape(result[1])), ran.stderr


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: chromium, chromium-browser or google-chrome")
@pytest.mark.parametrize("size", [pytest.param("1200,900", marks=pytest.mark.slow), "500,800"])
def test_a_browser_filters_searches_and_follows_links(page: str, tmp_path: Path, size: str) -> None:
    result, console = browse(page, tmp_path, size)
    everything = [claim.id for claim in ledger()]
    assert result["linked"] == "R-thm1"
    assert 0 <= result["top"] < 400
    assert result["all"] == everything
    assert result["paper"] == [name for name in everything if name.startswith("L-")]
    false = [claim.id for claim in ledger() if claim.verdict == "false" and claim.id.startswith("L-")]
    assert result["both"] == false
    assert result["status"] == [claim.id for claim in ledger() if claim.status == "checked numerically only"]
    assert "R-thm1" in result["searched"]
    assert len(result["searched"]) < len(everything)
    assert set(result["state"]) == set(OBSERVED)
    assert result["count"] == f"{len(OBSERVED)} of {len(everything)}"
    assert result["opened"] == ["P-14", len(everything)]  # the filter would hide it
    assert result["moved"] == everything[everything.index("P-14") + 1]
    assert result["key"] == "search"
    assert result["wide"] <= 0  # nothing is wider than the screen
    assert "CONSOLE" not in console
