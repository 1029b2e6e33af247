"""Commands of a shell, with the rule for what they print as JSON, and the tables they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from data import line, plane
from language import BITS, BLAS, FIT

P, L = plane(80, 8, seed=21), line(70, 6, seed=22)
FIXED = "--variance 1.2 --lengthscale 1,2,1.5 --noise 0.2"
TRAIN = "--epsilon 0.6 --delta 0.05 --grid -3 3 12 --iterations 15 --json"

COMMANDS: tuple[tuple[str, str], ...] = (
    (BITS, "rate -N 10_000 -M 30 --kernel se --lengthscale 1 --inputs gaussian --noise 0.1 --json"),
    (BITS, "rate -N 1e4,1e6 -M 10:40:10 --alpha 0.5,1 --json"),
    (BITS, "rate -N 5000 -M 20 --y-norm2 5000 --delta 0.01 --tv 1e-6 --json"),
    (BITS, "rate -N 5000 -M 20 --alpha 0.7 --form printed --direction p||q --json"),
    (BITS, "rate -N 5000 -M 20 --inputs uniform --low=-1,0 --high 1,2 --lengthscale 0.5,1 --json"),
    (BITS, "rate -N 1000 -M 50 --kernel matern12 --inputs uniform --json"),
    (BITS, "rate -N 5000 -M 20 --lengthscale-range 0.5:2 --json"),
    (BLAS, f"rate --data plane.csv -M 20 {FIXED} --json"),
    (FIT, "rate --data line.csv -M 10 --y-norm2 prior --json"),
    (BITS, "plan -N 1e6 --lengthscale 1 --noise 0.1 --target 0.01 --json"),
    (BITS, "plan -N 1e5 --target 0.5 --alpha 0.5 --form printed --std 1,2 --json"),
    (BITS, "plan -N 300 --kernel matern12 --inputs uniform --target 1e-3 --json"),
    (BLAS, "plan -N 1e6 --inputs uniform --method inducing fourier mercer --json"),
    (BLAS, "plan -N 1e6 --method fourier --width 5 --target 10 --json"),
    ("1e-8", f"plan --data plane.csv --target 5 {FIXED} --json"),
    ("1e-8", f"plan --data plane.csv --target 5 {FIXED} --select kdpp --seed 3 --rows 50 --alpha 0.5 --json"),
    ("1e-8", f"plan --data plane.csv --target 5 {FIXED} --select none --method inducing mercer fourier --json"),
    (FIT, "plan --data line.csv --target 1 --json"),
    (FIT, "plan --data line.csv --target 1 --kernel matern32 --select uniform --most 20 --json"),
    (BITS, "curve -N 1e4 --alpha 0.1,0.5,1 --out curve.png --json"),
    (BITS, "curve -N 1e3,1e6 -M 1:20:5 --json"),
    (BLAS, f"curve --data plane.csv -M 5:30:5 {FIXED} --json"),
    (FIT, "curve --data line.csv -M 2:8:2 --out data.png --json"),
    (BITS, "klinv 0.02 0.05 --json"),
    (BITS, "klinv 0 1e-300 --json"),
    (BITS, "klinv 0.5 inf --json"),
    (BITS, "pac --risk .093 --kl 42 -N 404 --delta .01 --grid-points 1201 --hyperparameters 2 --json"),
    (BITS, "pac --risk 0 --kl 0 -N 1e6 --json"),
    (BITS, "pac --risk .3 --kl 1e4 -N 404 --log-prior-penalty 14.2 --json"),
    (BITS, "mc --likelihood poisson --y 3 --m 0.5 --v 1 --step 1/t -n 1000 --json"),
    (BITS, "mc --likelihood poisson --link softplus --y 2 --m 0 --v 2 --samples 1,10 --json"),
    (BITS, "mc --likelihood bernoulli --y 1 --m 0.5 --v 2 --zeta 0.1 --iterations 1,100 --json"),
    (BITS, "mc --likelihood bernoulli --link logit --y 0 --m=-1 --v 1 --step 0.1 --json"),
    (BITS, "mc --likelihood gaussian --noise 0.5 --y 1 --m 0 --v 1 --json"),
    (BITS, "mc --likelihood student_t --df 3 --scale 0.5 --y 8 --m 0 --v 1 --samples 1,100 --json"),
    (BITS, "claims R-thm1 --json"),
    (BITS, "claims --section G --verdict misprint --json"),
    (BITS, "claims --section D.4 --json"),
    (FIT, "demo --draws 2 --out demo.png --json"),
    (FIT, f"certify train plane.csv {TRAIN} --kernel-lengthscale shared --out full"),
    (FIT, f"certify train plane.csv {TRAIN} --method fitc --inducing 8 --out fitc"),
    (FIT, f"certify train line.csv {TRAIN} --method vfe --inducing 6 --loss squared --objective pinsker --out vfe"),
    (FIT, f"certify train line.csv {TRAIN} --method free --inducing 5 --kernel matern32 --out free"),
    (FIT, f"certify train plane.csv {TRAIN} --scaling split --share 0.2 --seed 4 --loss exponential --out split"),
    (FIT, f"certify train first.csv {TRAIN} --target yield --method fitc --inducing 6 --out first"),
    (FIT, "certify check full/certificate.json --data plane.csv --json"),
    (FIT, "certify check free/certificate.json --data line.csv --json"),
    (FIT, "certify check free/certificate.json --data plane.csv --json"),
    (BITS, "rate -N 10 -M 30 --json"),
    (BITS, "plan -N 1e6 --target 0 --json"),
    (BITS, "klinv 1.5 0.1 --json"),
    (BITS, "claims R-thm9 --json"),
    (BITS, "mc --likelihood poisson --y 1.5 --m 0 --v 1 --json"),
    (BITS, "plan --data nothing.csv --target 1 --json"),
    (BITS, "certify check plane.csv --data plane.csv --json"),
    (BITS, "curve --json --form best"),
)
"""Rule and words of a command; run one after the other in one folder."""


def tables() -> None:
    """The files that the commands read, in this folder."""
    for name, data in {"plane": P, "line": L}.items():
        rows = np.column_stack([data.X, data.y]).tolist()
        Path(f"{name}.csv").write_text("".join(",".join(map(repr, row)) + "\n" for row in rows))
    rows = np.column_stack([P.y, P.X]).tolist()
    Path("first.csv").write_text("yield,a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
