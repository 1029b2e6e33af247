"""The end of a plan in plain words: which statements are about all rows, one recommendation, what training changes."""

from __future__ import annotations

from collections.abc import Sequence

from fitting.study.afterwards import NAMES, Afterwards
from fitting.study.problem import Problem
from fitting.study.ranks import AFTER, Aims, Entry
from fitting.study.spread import Spread

HINT = (
    'The best of {draws} draws: gpbounds.kdpp.select(..., method="best", draws={draws}), or SparseGP(inducing="best"). '
    "{option} adds the bounds on one draw."
)


def scope(problem: Problem, levels: Sequence[tuple[str, int]]) -> str:
    """Which levels, each with the number of its rows, are about all rows of the table, and which about a sample."""
    data = problem.data
    assert data is not None
    every = list(dict.fromkeys(level for level, N in levels if N == data.N))
    sampled = {N: list(dict.fromkeys(level for level, n in levels if n == N)) for _, N in levels if N < data.N}
    sentences = [f"About all {data.N} rows: {', '.join(every) or 'nothing'}."]
    for N, names in sampled.items():
        sentences.append(f"About a sample of {N} of the {data.N} rows only: {', '.join(names)}; all rows need more.")
    return " ".join(sentences)


def recommendation(
    problem: Problem, aims: Aims, entries: Sequence[Entry], after: Afterwards | None, known: Spread | None
) -> str:
    """One number of inducing points, or why there is none, and the command that does it."""
    assert problem.data is not None
    N, run = problem.data.N, _command(problem, aims)
    whole = [entry for entry in entries if entry.level == "given y" and entry.plan.N == N and entry.plan.M is not None]
    if after is not None and after.M is not None:
        name = NAMES.get(after.method, after.method)
        found = f"use M = {after.M} {name} inducing points: proved {AFTER} for all {N} rows, this kernel and noise."
    elif whole:
        plan = whole[0].plan
        probability = f"{100 * (1 - problem.settings.delta):g} %"
        found = (
            f"use M = {plan.M} inducing points, the {whole[0].points} draws: proved given y for all {N} rows, this "
            f"kernel and noise, with probability {probability}."
        )
    else:
        found = _unknown(N, entries, after)
    spread = f" These rows do not determine {', '.join(problem.edges)}; M may be far off." if problem.edges else ""
    if known is not None:
        rows = "" if known.N == N else f", on a sample of {known.N} rows"
        spread += f" Kernel and noise fitted to other rows give {known} ({known.level}{rows})."
    return f"Recommendation: {found}{spread} {run}"


def _unknown(N: int, entries: Sequence[Entry], after: Afterwards | None) -> str:
    """Why no M is recommended, and what is known."""
    text = f"no M is proved for all {N} rows with this kernel and noise"
    if after is not None:
        text += f" (no M <= {after.tried} does after the fact; fewer than {after.needed} cannot)"
    text += ": the M to use is unknown."
    sample = [entry.plan for entry in entries if entry.level == "given y" and entry.plan.N < N]
    if sample and sample[0].M is not None:
        text += f" M = {sample[0].M} is proved for {sample[0].N} of the rows only; do not use it for all."
    return text


def _command(problem: Problem, aims: Aims) -> str:
    """The command that trains a model with an M that holds for it."""
    assert problem.data is not None
    level = f"--nats {aims.nats:g}" + ("" if aims.alpha == 1.0 else f" --model renyi --alpha {aims.alpha:g}")
    target = f"--target {_quoted(problem.data.target)} " if problem.data.columns else ""
    grow = f"gpbounds train FILE {target}--inducing auto {level}"
    return (
        f"Run: {grow}  It grows M while it trains until the level holds for the final model, or says how far it came; "
        "then gpbounds audit shows whether predictions on held-out rows still gain from more points."
    )


def _quoted(name: str) -> str:
    return name if name.replace("_", "").isalnum() else f"'{name}'"


def again(problem: Problem) -> str:
    """What happens to M if a model is trained again."""
    keep = "gpbounds train FILE --keep-kernel MODEL --inducing M"
    if problem.refit is None:
        return f"M holds while kernel and noise stay as they are: {keep}  Training moves them, and M with them."
    return (
        f"Training moves kernel and noise, and M with them. To keep those of a trained model: {keep}  "
        "To plan for them: gpbounds plan --data FILE --model MODEL"
    )
