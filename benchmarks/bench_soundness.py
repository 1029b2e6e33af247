"""What proved rounding costs `renyi.evidence` and `renyi.gap`: processor seconds and widths beside another checkout's.

    python benchmarks/bench_soundness.py PATH_OF_THE_OTHER_CHECKOUT

Well-conditioned problems: N = 2000 with M = 200, and N = 100 000 with M = 500; the least of three runs of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

RUN = """
import json, sys, time
import numpy as np
from gpbounds.kernels import Matern
from gpbounds.renyi import evidence, gap

N, M = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (N, 2))
y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(N)
found = {}
for name, function in (("evidence", evidence), ("gap", lambda *a, **o: gap(*a, 1.0, **o))):
    seconds = []
    for _ in range(3):
        start = time.process_time()
        lower, upper = function(Matern(1.5, 1.0, 1.0), X, y, X[:M], noise=0.1)
        seconds.append(time.process_time() - start)
    found[name] = [min(seconds), float(upper) - float(lower)]
print(json.dumps(found))
"""


def measured(checkout: Path, N: int, M: int) -> dict[str, list[float]]:
    """Seconds and widths with the package of ``checkout``."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", RUN, str(N), str(M)]
    run = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def main() -> None:
    other, own = Path(sys.argv[1]).resolve(), Path(__file__).resolve().parents[1]
    for N, M in ((2000, 200), (100_000, 500)):
        before, after = measured(other, N, M), measured(own, N, M)
        for name, (seconds, width) in after.items():
            times, wider = seconds / before[name][0], width / before[name][1]
            print(f"N = {N}, M = {M}, {name}: {seconds:.2f} s, {times:.2f} times; width {width:.6g}, {wider:.6f} times")


if __name__ == "__main__":
    main()
