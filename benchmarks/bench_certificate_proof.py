"""What `Certificate.check(rigorous=True)` costs, and how much it moves the bound.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/bench_certificate_proof.py [--json FILE] [--kernel K]

Generated rows with 8 inputs, the band loss; the exact posterior, or FITC's at M rows.  Each case runs once in a process
of its own: processor seconds of the ordinary check and of the proof alone, the peak of the process's memory, the widths
of the proved intervals of KL and R_S, and the proved bound less the stated one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import opening, save

CASES: tuple[tuple[int, int | None], ...] = (
    (404, None),
    (1000, None),
    (3000, None),
    (12_000, 100),
    (12_000, 300),
    (12_000, 500),
)
DIM, NOISE = 8, 0.09


def measure(N: int, M: int | None, name: str) -> dict[str, Any]:
    """Issue a certificate, check it, prove it."""
    from gpbounds import Matern, SquaredExponential
    from gpbounds.losses import Band
    from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Sparse
    from gpbounds.pacbayes.certificate import rows
    from gpbounds.pacbayes.certificate.proof import prove

    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    y = np.sin(X @ rng.standard_normal(DIM) / 2.0) + np.sqrt(NOISE) * rng.standard_normal(N)
    grid = HyperGrid.shared()
    theta = grid.round([1.0, 4.0]).theta
    kernel = Matern(1.5, **theta) if name == "matern32" else SquaredExponential(**theta)
    posterior = Exact(NOISE) if M is None else Sparse(X[:M], NOISE, 1.0)
    certificate = Certificate.issue(X, y, posterior, kernel, grid=grid, loss=Band(0.6), delta=0.01)
    start = time.process_time()
    report = certificate.check(X, y)
    ordinary = time.process_time() - start
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    proof = prove(certificate, rows.raw(X, y))
    seconds = time.process_time() - start
    return {
        "N": N,
        "M": M,
        "kernel": name,
        "confirmed": report.confirmed,
        "check_s": ordinary,
        "proof_s": seconds,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "memory_before_gb": before * 1024 / 1e9,
        "kl": proof.kl,
        "kl_width": proof.kl - proof.kl_below,
        "risk": proof.risk,
        "risk_width": proof.risk - proof.risk_below,
        "bound": certificate.bound,
        "moved": proof.moved,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--kernel", choices=("se", "matern32"), default="se")
    parser.add_argument("--one", nargs=2, type=int, metavar=("N", "M"), help="one case, as JSON; M = 0 is exact")
    options = parser.parse_args()
    if options.one:
        N, M = options.one
        print(json.dumps(measure(N, M or None, options.kernel)))
        return
    about = opening(
        f"\n{'N':>6} {'M':>5} {'check':>9} {'proof':>9} {'memory':>8} {'KL':>9} {'width':>8} {'R_S':>7} {'width':>8} "
        f"{'bound':>8} {'moves by':>9}"
    )
    cases = []
    for N, M in CASES:
        command = [sys.executable, __file__, "--kernel", options.kernel, "--one", str(N), str(M or 0)]
        case = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cases.append(case)
        print(
            f"{N:>6} {M or '':>5} {case['check_s']:>7.1f} s {case['proof_s']:>7.1f} s {case['memory_gb']:>5.2f} GB "
            f"{case['kl']:>9.3f} {case['kl_width']:>8.1e} {case['risk']:>7.4f} {case['risk_width']:>8.1e} "
            f"{case['bound']:>8.5f} {case['moved']:>+9.1e}",
            flush=True,
        )
    save(options.json, about, cases)


if __name__ == "__main__":
    main()
