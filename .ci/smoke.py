"""Use an installed distribution from outside the repository: metadata, ledger, command, training, certificate."""

import importlib.metadata
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import gpbounds
from fitting import PACGP, load
from gpbounds.pacbayes import Certificate

metadata = importlib.metadata.metadata("gpbounds")
assert metadata["License-Expression"] == "MIT", metadata["License-Expression"]
assert metadata["Version"] == gpbounds.__version__
assert "site-packages" in gpbounds.__path__[0], gpbounds.__path__[0]
assert len(gpbounds.claims.ledger()) > 200

shown = subprocess.run(["gpbounds", "plan", "-N", "1e6", "--nats", "0.1"], capture_output=True, text=True, check=True)
assert "inducing points suffice" in shown.stdout

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, (60, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60)
model = PACGP(epsilon=0.5, delta=0.05, max_iter=30, tol=0.01).fit(X, y)
with tempfile.TemporaryDirectory() as folder:
    model.certificate_.save(Path(folder) / "certificate.json")
    assert Certificate.load(Path(folder) / "certificate.json").check(X, y).confirmed
    model.save(Path(folder) / "model")
    assert np.array_equal(load(Path(folder) / "model").predict(X), model.predict(X))
