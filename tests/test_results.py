"""The tables in the folder examples/results are those that the scripts make of the CSV files beside them."""

from __future__ import annotations

import csv
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
RESULTS = EXAMPLES / "results"
VERDICTS = ("reproduced", "in part", "not reproduced", "not tested", "not testable")


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


def low_rank(example):
    script = example("lowrank_tables")
    records = script.load(RESULTS / "lowrank_tables.csv", script.Score)
    return [*(script.table(records, what) for what in ("nlpd", "rmse")), script.claims(records)]


def deep(example):
    script = example("deep_features")
    with (RESULTS / "deep_features.csv").open(encoding="utf-8") as file:
        rows = [tuple(row) for row in csv.reader(file)][1:]
    tables = (script.table, script.claims, lambda rows, name: script.rank_table(rows, name, ""))
    return [table(rows, name) for name in script.TESTED for table in tables]


def protocols(example):
    script = example("deep_protocols")
    with (RESULTS / "deep_protocols.csv").open(encoding="utf-8") as file:
        return [script.table([tuple(row) for row in csv.reader(file)][1:], "elevators")]


def renyi(example):
    study, tables, sharpness = (example(name) for name in ("renyi_study", "renyi_tables", "renyi_sharpness"))

    def groups(part, kind=study.Score, **other):
        scores = example("renyi_setting").load(RESULTS / f"renyi_{part}.csv", kind)
        return study.groups(scores, replace(study.PARTS[part], **other))

    texts = [tables.by_cross_validation(groups("tables"), metric) for metric in ("RMSE", "NLPD")]
    texts += [tables.by_inducing(groups("inducing"), metric) for metric in ("RMSE", "NLPD")]
    texts += [tables.by_size(groups("sizes")), tables.by_time(groups("times"))]
    texts.append(tables.by_function(groups("boxplots", orders=(0.2, 0.5, 0.8))))
    large = example("renyi_large")
    many = groups("large", large.Timed)
    most = groups("large", large.Timed, rows=(33_334,), methods=("SGP", "PEP"))
    theory = [group for group in groups("large", large.Timed, methods=("SGP",)) if not group.M]
    texts += [large.table(each, metric) for each in (many, most, theory) for metric in ("RMSE", "NLPD")]
    texts.append(large.by_time(many))
    return texts + [sharpness.table(group) for group in groups("sharpness", sharpness.Flat)]


def pac_gp(example):
    script, settings = example("pac_sgp_inducing"), example("pac_settings")

    def table(file, data, loss, N):
        scores = [s for s in settings.load(RESULTS / f"{file}.csv") if (s.data, s.loss, s.N) == (data, loss, N)]
        study = script.Study(data, loss, N == 0.8 * script.SHAPES[data][0])
        return example("pac_tables").markdown(script.groups(scores, script.PAPER, study))

    housing, scores = example("pac_gp_housing"), settings.load(RESULTS / "pac_gp_housing.csv")
    texts = [example("pac_tables").markdown(housing.groups(scores, variant)) for variant in settings.VARIANTS]
    texts += [table("pac_sgp_inducing", "kin40k", "band", 32_000), table("pac_sgp_pol", "pol", "band", 12_000)]
    exponential = (("kin40k", 32_000), ("kin40k", 8_000), ("pol", 12_000))
    return texts + [table("pac_sgp_exponential", data, "exponential", N) for data, N in exponential]


def dlm(example):
    losses, beta, sampling = (example(f"dlm_{name}") for name in ("losses", "beta", "sampling"))
    load = example("dlm_setting").load
    texts = [losses.tables(load(RESULTS / "dlm_losses.csv", losses.Score))]
    near = load(RESULTS / "dlm_losses_kin40k.csv", losses.Score)  # from another lengthscale; the page has n = 1000
    texts.append(losses.tables([score for score in near if score.n == 1000]))
    texts.append(beta.table_of_ends(load(RESULTS / "dlm_beta_epochs.csv", beta.Mark)))
    return [*texts, sampling.table_of_ends(load(RESULTS / "dlm_sampling.csv", sampling.Mark))]


@pytest.mark.parametrize(
    ("made", "page"),
    [
        (low_rank, "lowrank"),
        (deep, "lowrank"),
        (protocols, "lowrank"),
        (renyi, "renyi"),
        (pac_gp, "pac_gp"),
        (dlm, "dlm"),
    ],
)
def test_tables_are_those_of_the_files(made, page, example):
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    lost = [table for table in made(example) if table not in text]
    assert not lost, f"{page}.md lacks what the files say:\n\n" + "\n\n".join(lost)


def test_every_claim_has_a_verdict():
    text = (EXAMPLES / "RESULTS.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| .* \| .* \| .* \| .* \|$", line)]
    claims = [row.split(" | ")[1] for row in rows if row.count(" | ") == 3 and not row.startswith("| claim")]
    assert len(claims) > 70
    assert [verdict for verdict in claims if not verdict.startswith(VERDICTS)] == []
