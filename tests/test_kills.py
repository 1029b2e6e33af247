"""Work that is killed, and signals: no file is damaged, and the next run ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from thinning import one_in

import fitting
from fitting.training import Session, train_adam, train_lbfgs
from fitting.training.watch import Watch
from gpbounds.cli import main
from tests.scripts import record

FREE = [(-9.0, 9.0)] * 3
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@forks
@pytest.mark.parametrize("job", one_in(2, ["save imported", "ExactGP, L-BFGS"]))
def test_a_few_kills_leave_no_fault(job):
    counts, errors = record("kills.py", "--kills", "2", "--jobs", job)
    assert counts["faults"] == 0, errors
    assert counts["kills"] == 2


@pytest.mark.slow
@forks
def test_kills_of_all_work_leave_no_fault():
    counts, errors = record("kills.py", "--kills", "42", "--seed", "1")
    assert counts["faults"] == 0, errors
    assert len(counts["by work"]) >= 12


def bowl(x):
    return float((x - 1.0) @ (x - 1.0) + (x**4).sum()), 2.0 * (x - 1.0) + 4.0 * x**3


class Killed(BaseException):
    pass


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
@pytest.mark.parametrize("most", [4, 12, 3000])
def test_a_kill_before_the_record_of_the_end_changes_nothing(train, most, tmp_path, monkeypatch):
    """A run that had ended took one step more after the kill, or said that it was interrupted."""

    def run(path):
        def once(earlier, save):
            return train(bowl, np.zeros(3), FREE, max_iter=most, earlier=earlier, save=save)

        return Session(path, "f", 0).run("a", most, once)

    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        end = Watch.end

        def dies(self, status, reason):
            raise Killed

        patch.setattr(Watch, "end", dies)
        with pytest.raises(Killed):
            run(tmp_path / "killed")
        assert Watch.end is not end
    again = run(tmp_path / "killed")
    assert (again.status, again.reason, again.values) == (whole.status, whole.reason, whole.values)
    assert (again.vector == whole.vector).all()
    assert again.evaluations == whole.evaluations


def test_long_iterations_have_a_checkpoint_each_and_short_ones_every_tenth(monkeypatch):
    clock, saved = [0.0], []
    monkeypatch.setattr("fitting.training.watch.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def save(run):
        saved.append(run.iterations)
        clock[0] += 1.0

    watch = Watch(np.zeros(1), max_iter=99, save=save)
    watch.begin(0.0)
    for iteration in range(1, 41):
        clock[0] += 60.0 if iteration <= 9 else 1.0  # longer than 50 checkpoints, or not
        watch.step(-float(iteration))
        watch.checkpoint()
    assert saved == [*range(1, 10), 10, 20, 30, 40]


# Signals to the command line


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    np.savetxt(tmp_path / "data.csv", np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    return str(tmp_path / "data.csv")


@pytest.mark.skipif(os.name == "nt", reason="SIGTERM of POSIX")
def test_sigterm_ends_a_command_without_files(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fitting.study.predicted.predicted", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    words = ["train", table, "--inducing", "5", "--max-iter", "3", "--out", str(tmp_path / "out")]
    assert main(words) == 143
    assert capsys.readouterr().err.splitlines()[-1] == "gpbounds: terminated"
    assert not (tmp_path / "out").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def interrupted_at(monkeypatch, n):
    """Ctrl-C at step n of the training that follows the start."""

    def trained(loss, *args, **options):
        count = 0

        def stops(x):
            nonlocal count
            count += 1
            if count == n:
                raise KeyboardInterrupt
            return loss(x)

        return train_lbfgs(stops, *args, **options)

    monkeypatch.setattr("fitting.estimators.trainer.train_lbfgs", trained)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_after_ctrl_c_in_training_the_command_writes_the_best_point_and_says_130(table, tmp_path, capsys, monkeypatch):
    interrupted_at(monkeypatch, 4)
    words = ["train", table, "--inducing", "5", "--out", str(tmp_path), "--json"]
    assert main(words) == 130
    assert "nterrupted" in capsys.readouterr().out
    model = fitting.load(tmp_path / "model.npz")
    assert "interrupted" in [run.status for run in model.runs_]
    assert (tmp_path / "predictions.png").exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_after_ctrl_c_in_training_a_certificate_holds_and_the_status_is_130(table, tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3)
        words = ["certify", "train", table, "--epsilon", "0.6", "--method", "pac-bayes", "--out", str(tmp_path)]
        assert main(words) == 130
    assert main(["certify", "check", str(tmp_path / "certificate.json"), "--data", table]) == 0
    capsys.readouterr()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nobody_audits_a_model_that_is_trained_in_part(table, tmp_path, capsys, monkeypatch):
    interrupted_at(monkeypatch, 3)
    assert main(["audit", table, "--inducing", "5", "--out", str(tmp_path / "a.html")]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "gpbounds: interrupted"
    assert not (tmp_path / "a.html").exists()
