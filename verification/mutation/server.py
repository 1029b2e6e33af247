"""A process that has imported what all tests need, and is copied for each run of pytest: a second and a half saved.

It reads lines ``{"plan": FILE, "output": FILE, "arguments": [...]}`` and answers each with pytest's return code.  It
runs in a copy of the tree and must not import anything from there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
import warnings

NEEDED = (
    "numpy", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats", "scipy.spatial",
    "mpmath", "flint", "sklearn.gaussian_process", "sklearn.datasets", "sklearn.cluster",
    "sklearn.utils.estimator_checks",
    "matplotlib.pyplot", "tqdm", "pytest", "_pytest.assertion.rewrite", "hypothesis.strategies",
)  # fmt: skip


def run(plan: str, output: str, arguments: list[str]) -> None:
    """pytest, in this process, which ends with it."""
    os.environ["MUTATION_PLAN"] = plan
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    import pytest

    code = 70
    try:
        code = int(pytest.main(arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in NEEDED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
