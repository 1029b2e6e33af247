"""Files are replaced in one step: an error, a full disk and a kill leave the old one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from matplotlib.figure import Figure

from gpbounds.files import replacing
from gpbounds.plotting.elements import figure
from gpbounds.rows import copies


def parts(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_the_old_file_stays_until_the_new_one_is_complete(mode, tmp_path):
    path, text = tmp_path / "a", (lambda s: s.encode() if mode == "wb" else s)
    with replacing(path, mode) as file:
        file.write(text("old\n"))
    with replacing(path, mode) as file:
        file.write(text("new\n"))
        file.flush()
        assert path.read_bytes() == b"old\n"
    assert path.read_bytes() == b"new\n"
    assert parts(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_the_old_file_and_nothing_else(error, tmp_path):
    path = tmp_path / "a"
    path.write_text("old", encoding="utf-8")

    def stop(_):
        raise error

    with pytest.raises(error), replacing(path) as file:
        stop(file.write("half"))
    assert (path.read_text(encoding="utf-8"), parts(tmp_path)) == ("old", [])


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), replacing(path) as file:
        file.write("new")
    assert (path.read_text(encoding="utf-8"), parts(tmp_path)) == ("old", [])


KILLED = """
import os, signal, sys
from gpbounds.files import replacing
with replacing(sys.argv[1]) as file:
    file.write("half of a")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_what_a_killed_process_left_is_deleted_by_the_next_writer(tmp_path):
    path = tmp_path / "a"
    path.write_text("old", encoding="utf-8")
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == -9
    assert path.read_text(encoding="utf-8") == "old"
    assert len(parts(tmp_path)) == 1
    with replacing(tmp_path / "b") as file:  # another file's writer leaves it
        file.write("b")
    assert len(parts(tmp_path)) == 1
    with replacing(path) as file:
        file.write("new")
    assert (path.read_text(encoding="utf-8"), parts(tmp_path)) == ("new", [])


@pytest.mark.skipif(os.name == "nt", reason="locks of fcntl")
def test_a_writer_does_not_delete_the_file_of_another_that_lives(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as slow:
        slow.write("slow")
        quick = threading.Thread(target=lambda: write(path, "quick"))
        quick.start()
        quick.join()
        assert path.read_text(encoding="utf-8") == "quick"
        assert len(parts(tmp_path)) == 1
    assert (path.read_text(encoding="utf-8"), parts(tmp_path)) == ("slow", [])


def write(path, text):
    with replacing(path) as file:
        file.write(text)


@pytest.mark.skipif(os.name == "nt", reason="links and permissions of POSIX")
def test_links_and_permissions_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old", encoding="utf-8")
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    write(tmp_path / "fresh", "x")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o666 & ~mask
    write(os.devnull, "x")  # no regular file: it is written as it is
    assert not os.path.isfile(os.devnull)


def test_the_error_names_the_file_and_not_the_temporary_one(tmp_path):
    path = tmp_path / "missing" / "a"
    with pytest.raises(FileNotFoundError) as caught:
        write(path, "x")
    assert caught.value.filename == str(path)


def test_a_figure_that_fails_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    figure(1.0, 1.0).savefig(path)
    old = path.read_bytes()
    assert old.endswith(b"IEND\xaeB`\x82")

    def half(self, file, **options):
        file.write(old[:20])
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", half)
        with pytest.raises(MemoryError):
            figure(1.0, 1.0).savefig(path)
    assert (path.read_bytes(), parts(tmp_path)) == (old, [])
    figure(1.0, 1.0).savefig(tmp_path / "b")
    assert (tmp_path / "b.png").read_bytes() == old  # as matplotlib names it


def test_shuffled_rows_get_their_names_when_they_are_complete(tmp_path, monkeypatch):
    X, y = np.arange(20.0)[:, None], np.arange(20.0)

    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np.memmap, "flush", stops)
        with pytest.raises(KeyboardInterrupt):
            copies.shuffle_to(tmp_path, X, y, rng=0)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"X.npy", "y.npy"}
    assert not left or os.name == "nt"  # which does not delete a file that is mapped
    copies.shuffle_to(tmp_path, X, y, rng=0)
    assert sorted(np.load(tmp_path / "X.npy").ravel()) == list(range(20))
