"""Readers of damaged and hostile files: each fault that changed files have found, and a sample of such files."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from robustness.readers import OTHER, judge_imported

import fitting
from fitting.archive import read_archive, write_archive
from fitting.training import Session, train_adam, train_lbfgs
from gpbounds import SquaredExponential
from gpbounds.files import content, mapped
from gpbounds.kernels import Constant
from gpbounds.records import read_json
from gpbounds.renyi import Model
from gpbounds.rows import source
from gpbounds.rows.table_rows import read_rows
from gpbounds.rows.tables import read_table, write_table
from tests.scripts import record

ROOT = Path(__file__).parent.parent
X = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 2))
Y = np.sin(X[:, 0])


# Tables


@pytest.mark.parametrize("cell", ["1_0", "\u0661", "\uff11", "1\x1c", "0x10", "1e", "1__0"])
def test_a_cell_that_only_python_reads_as_a_number_is_none(cell, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"1,2\n3,{cell}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected numbers, got"):
        read_table(path)


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028"])
def test_only_ends_of_lines_end_a_row(mark, tmp_path):
    """`str.splitlines` makes two rows of this one."""
    path = tmp_path / "a.csv"
    path.write_text(f"1,2\n3,4{mark}5,6\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected 2 columns in every row, got 3 in line 2"):
        read_table(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_end_as_on_any_system(end, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["a,b", "1, 2.5e-3", "-.5,\t+4."]).encode())
    values, names = read_table(path)
    assert names is not None
    assert values.tolist() == [[1.0, 2.5e-3], [-0.5, 4.0]]


def test_a_wide_first_row_takes_no_memory_for_rows_that_are_short(tmp_path):
    """The table that the first row promises would have 10^10 bytes."""
    path = tmp_path / "a.csv"
    path.write_bytes(b",".join([b"1"] * 20_000) + b"\n" + b"1\n" * 60_000)
    tracemalloc.start()
    with pytest.raises(ValueError, match="expected 20000 columns in every row, got 1 in line 2"):
        read_table(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_gzip_file_is_not_unpacked_beyond_what_its_size_justifies(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * 2**24, 9))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpack it yourself"):
        read_table(path)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_a_cell_without_end_is_refused_where_names_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"' + "a" * 200_000 + ",b\n1,2\n", encoding="utf-8")
    for read in (read_table, read_rows):
        with pytest.raises(ValueError, match="expected comma-separated numbers, but field larger"):
            read(path)


# Arrays


def npy(header, body=b""):
    text = header if isinstance(header, str) else repr(header)
    line = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + body


ABOUT = {"descr": "<f8", "fortran_order": False, "shape": (2,)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy({**ABOUT, "shape": (10**15,)}, bytes(16)), "expected 16 bytes of numbers"),
        (npy({**ABOUT, "shape": (-2,)}, bytes(16)), "sizes >= 0"),
        (npy({**ABOUT, "shape": (True, 2)}, bytes(16)), "expected at most 8 dimensions|NumPy's format"),
        (npy({**ABOUT, "shape": (1,) * 30}, bytes(8)), "at most 8 dimensions"),
        (npy({**ABOUT, "descr": "|O"}, bytes(16)), "expected real numbers, got dtype object"),
        (npy({**ABOUT, "descr": [("a", "<f8"), ("b", "|O")]}, bytes(32)), "expected real numbers"),
        (npy("{'descr': " * 5), "NumPy's format"),  # a TokenError of Python's parser
        (npy("(" * 5000), "NumPy's format"),
        (npy("-" * 9000 + "1"), "NumPy's format"),
        (npy("__import__('os')"), "NumPy's format"),
        (b"PK\x05\x06" + bytes(18), "NumPy's format"),  # an empty archive, which numpy.load reads
        (npy(ABOUT, bytes(15)), "expected 15 bytes of numbers"),
        (npy({**ABOUT, "shape": (0,)}), "at least one number"),
        (b"", "NumPy's format"),
    ],
)
def test_an_array_is_read_only_if_its_header_states_the_bytes_that_are_there(content, words, tmp_path):
    path = tmp_path / "X.npy"
    path.write_bytes(content)
    np.save(tmp_path / "y.npy", np.zeros(2))
    for read in (mapped, lambda file: source(file, tmp_path / "y.npy")):
        with pytest.raises(ValueError, match=words):
            read(path)


# Archives: models and checkpoints


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path, content, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name), data, compression)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, {"kind": "k", "version": 1}, {"x": np.arange(4.0)})
    return path


def test_a_bomb_is_refused_before_it_is_unpacked(archive):
    zeros = npy({**ABOUT, "shape": (2**23,)}, bytes(2**26))
    packed(archive, [*members(archive).items(), ("bomb.npy", zeros)], zipfile.ZIP_DEFLATED)
    assert archive.stat().st_size < 2**17
    del zeros
    tracemalloc.start()
    with pytest.raises(ValueError, match="larger than the file"):
        read_archive(archive, "k", 1)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_members_are_stored_once_and_as_arrays(archive):
    whole = members(archive)
    packed(archive, whole.items(), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"larger than the file|compressed"):
        read_archive(archive, "k", 1)
    for more in (("x.npy", whole["x.npy"]), ("../../x", b"")):
        packed(archive, [*whole.items(), more])
        with pytest.raises(ValueError, match="is no array, or is there twice"):
            read_archive(archive, "k", 1)
    packed(archive, [*whole.items(), ("y.npy", npy({**ABOUT, "shape": (10**12,)}, bytes(16)))])
    with pytest.raises(ValueError, match="expected 16 bytes of numbers"):
        read_archive(archive, "k", 1)


def test_a_pickle_in_an_archive_does_not_run(archive, monkeypatch):
    import pickle

    monkeypatch.delenv("GPBOUNDS_RAN", raising=False)

    class Runs:
        def __reduce__(self):
            return eval, ("__import__('os').environ.__setitem__('GPBOUNDS_RAN', '1')",)

    content = npy({**ABOUT, "descr": "|O", "shape": (1,)}, pickle.dumps([Runs()]))
    packed(archive, [*members(archive).items(), ("y.npy", content)])
    with pytest.raises(ValueError, match="expected numbers or texts, got dtype object"):
        read_archive(archive, "k", 1)
    assert "GPBOUNDS_RAN" not in os.environ


def edited(path, change):
    """The model with ``change(about, arrays)``; its checksums are right."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(arrays.pop("about").tobytes())
    change(about, arrays)
    write_archive(path, about, arrays)


def put(tree, *path, value):
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


@pytest.fixture(scope="module")
def model():
    return fitting.SparseGP(n_inducing=4, optimizer=None, kernel=SquaredExponential(), noise=0.1).fit(X, Y)


@pytest.mark.parametrize(
    "change",
    [
        lambda about, arrays: put(about, "found", "predict", value=1),  # only numbers of training are set
        lambda about, arrays: put(about, "found", "__class__", value="x"),
        lambda about, arrays: put(about, "found", "noise_", value="x"),
        lambda about, arrays: put(about, "found", "n_features_in_", value=3),
        lambda about, arrays: put(about, "arguments", "colour", value=1),
        lambda about, arrays: put(about, "arguments", value=[]),
        lambda about, arrays: put(about, "kernel", value={"type": "SquaredExponential", "variance": 1.0}),
        lambda about, arrays: put(about, "kernel", "more", value=1),
        lambda about, arrays: put(about, "kernel", "lengthscale", value=[1.0, 1.0, 1.0]),
        lambda about, arrays: about.pop("found"),
        lambda about, arrays: arrays.pop("posterior/w"),
        lambda about, arrays: put(arrays, "posterior/w", value=np.ones((3, 1))),
        lambda about, arrays: put(arrays, "posterior/w", value=np.full((4, 1), np.nan)),
        lambda about, arrays: put(arrays, "X_train_", value=X[:, :1]),
        lambda about, arrays: put(arrays, "y_train_", value=Y[:-1]),
        lambda about, arrays: put(arrays, "y_scale_", value=np.zeros(1)),
        lambda about, arrays: put(arrays, "inducing_", value=np.array(["a"])),
        lambda about, arrays: put(about, "class", value="VariationalGPClassifier"),
    ],
    ids=range(18),
)
def test_a_model_whose_parts_do_not_fit_is_refused_in_a_sentence(model, change, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    assert (fitting.load(path).predict(X) == model.predict(X)).all()
    edited(path, change)
    with pytest.raises(ValueError, match=r"^path: expected a model") as caught:
        fitting.load(path)
    assert "\n" not in str(caught.value)


def of_adam(name, arrays):
    """A number in the state of Adam, or for L-BFGS-B the one that its state has."""
    return name if "0/state/x" in arrays else "candidate"


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
@pytest.mark.parametrize(
    "change",
    [
        lambda about, arrays: arrays.pop("0/values"),
        lambda about, arrays: put(arrays, "0/vector", value=np.zeros(2)),
        lambda about, arrays: put(arrays, "0/vector", value=np.full(3, np.nan)),
        lambda about, arrays: put(arrays, next(n for n in arrays if "/state/" in n), value=np.zeros((2, 7))),
        lambda about, arrays: put(about, "runs", 0, "more", value=1),
        lambda about, arrays: put(about, "runs", 0, "evaluations", value=-1),
        lambda about, arrays: put(about, "runs", 0, "status", value=[]),
        lambda about, arrays: put(about, "runs", 0, "name", value={}),
        lambda about, arrays: put(about, "runs", value={"a": 1}),
        lambda about, arrays: put(about, "seed", value=-1),
        lambda about, arrays: put(about, "runs", 0, "state", "candidate", value="x"),
        lambda about, arrays: put(about, "runs", 0, "state", of_adam("bad", arrays), value=[]),
        lambda about, arrays: put(about, "runs", 0, "state", of_adam("since", arrays), value=-1),
        lambda about, arrays: arrays[next(n for n in ("0/state/losses", "0/state/x") if n in arrays)].fill(np.nan),
        lambda about, arrays: (
            [arrays.pop(name) for name in list(arrays) if "/state/" in name and "second" not in name]
            + [put(about, "runs", 0, "state", "more", value=1)]
        ),
    ],
    ids=range(15),
)
def test_a_checkpoint_whose_parts_do_not_fit_is_refused_in_a_sentence(train, change, tmp_path):
    def run(most):
        def bowl(x):
            return float((x - 1.0) @ (x - 1.0) + (x**4).sum()), 2.0 * (x - 1.0) + 4.0 * x**3

        def once(earlier, save):
            return train(bowl, np.zeros(3), [(-9.0, 9.0)] * 3, max_iter=most, earlier=earlier, save=save)

        return Session(tmp_path / "c", "f", 0).run("a", most, once)

    run(3)
    edited(tmp_path / "c", change)
    with pytest.raises(ValueError, match=r"^checkpoint: expected|^path: expected") as caught:
        run(6)
    assert "\n" not in str(caught.value)


# JSON


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "[" * 100_000 + text, "nested too deep"),
        (lambda text: text.replace("0.25", "1e999"), "a double holds"),
        (lambda text: text.replace("0.25", "9" * 2000), "at most 1000 digits"),
        (lambda text: text.replace("0.25", "9" * 900), "no model"),
        (lambda text: text.replace("0.25", "true"), "noise: expected a number"),
        (lambda text: text.replace("0.25", "NaN"), "finite numbers"),
        (lambda text: text.replace('"noise"', '"Z"'), "each field once"),
        (
            lambda text: text.replace('"variance": 0.5', '"variance": 0.5, "more": 1'),
            "the fields type, variance",
        ),
        (lambda text: text.replace('"variance": 0.5', '"variance": null'), "no model"),
        (lambda text: text.replace('"k1"', '"k3"'), "expected the fields type, k1, k2 of Sum"),
        (lambda text: text.replace('"mean"', '"means"'), "unknown field"),
        (lambda text: text.replace('"version": 1', '"version": true'), "another version"),
    ],
)
def test_a_model_of_another_library_states_each_field_once_and_no_other(change, words, tmp_path):
    path = tmp_path / "model.json"
    Model(SquaredExponential() + Constant(0.5), 0.25, X[:2]).save(path)
    assert Model.load(path).kernel.k2.variance == 0.5
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        Model.load(path)


@pytest.mark.parametrize("number", ["9007199254740993", "9007199254740993.0"])
def test_a_number_between_two_doubles_is_the_nearest_one(number, tmp_path):
    """Whole or not; the harness took the whole one for a wrong answer."""
    path = tmp_path / "model.json"
    Model(SquaredExponential(), 0.25, None).save(path)
    original = path.read_bytes()
    path.write_bytes(original.replace(b"0.25", number.encode()))
    model = Model.load(path)
    assert model.noise == 2.0**53
    assert judge_imported(model, path.read_bytes(), original) == OTHER
    with pytest.raises(AssertionError, match="noise"):
        judge_imported(model, original, original)


def certificate(path, change):
    from gpbounds.losses import Band
    from gpbounds.pacbayes import Certificate, Exact, HyperGrid

    settings = {"grid": HyperGrid.shared(-6.0, 6.0, 12), "loss": Band(0.6), "delta": 0.01}
    Certificate.issue(X, Y, Exact(0.1), SquaredExponential(), **settings).save(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    return Certificate.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: put(record, "grid", "steps", value=[10**400, 12]),  # beyond the doubles
        lambda record: put(record, "loss", "epsilon", value=[[[{"k1": ["x" * 50] * 100}]]]),
        lambda record: put(record, "schema", value=["x" * 5000]),
        lambda record: record["kernel"].update(family="Matern", nu=1e16 + 2.0),  # its values take as many steps
        lambda record: put(record, "x" * 5000, value=1),
        lambda record: put(record, "inputs", "origin", value="a" * 5000),
        lambda record: put(record, "data", "rows", value=10**400),
        lambda record: put(record, "data", "rows", value=2**53 + 1),  # its double is another number
        lambda record: put(record, "data", "columns", value=-(10**900)),
    ],
    ids=range(9),
)
def test_a_certificate_with_large_parts_is_refused_in_a_short_sentence(change, tmp_path):
    with pytest.raises(ValueError, match=r"expected|unknown|large") as caught:
        certificate(tmp_path / "c.json", change)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


# Parquet


@pytest.mark.parametrize("cut", [4, 300, -20, -9])
def test_a_damaged_parquet_file_is_refused_in_a_sentence(cut, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    write_table(path, ["a", "b", "y"], [np.column_stack([X, Y])])
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + b"\x0e\x0f\xff" + whole[cut:][3:])
    for read in (read_table, lambda file: source(file, "y")):
        with pytest.raises(ValueError, match="expected a Parquet file, got a damaged file"):
            read(path)


ABORTS = (
    "c-jka3^EjD5&gg@`i)U^+WCKz7;Qx5L>Yt_7%D!LpUeMV-FWo-{sf-s_fG%5Y2Wfzfg`cw+x~eUWj0yW{ocRD!{Bn}#y|E2w<d&KJ@R0`%b6V;"
    "Id43%e`S60YrFRM{RW%nYb2a|YX8Qz=2?d87yF94b_`y}|JfTnntQIh>9jqANYl>8#~<xKb}vxs@`n%m`}Y5sn$q;$UX(#pK~zO_e(R!zEHXgn"
    "2#B(YvdKtr!1POSz+524pn*kHP>_LvLBNIyNXjv?unHK3l+D<6hY#-0Upu>+S&;n6;PP|ku9fNgk7Zw){8jVcex6M?P0pwPw%_1<ch-rG-}ism"
    "^DE}C@qPOPm0CBK1uwUMvx&iF-Jv)8s~o4zx6S`#&%nCo_tWT=_8XS3J({9$(%vNMyK3OePx~8UxBOXuWW)Z7Wp9m66<xQV@%ZT*&+yOoR^o?F"
    "rycsfAD2I2_DgWUTm<qby68KC{(QCS^%Yhme_qfG=gHjOV!!u{>D1Y~p4uyI5&drP<?jAhXMS^T?!0c_rOiL>S=^=lR~|OLYFqktzk`A6y;s^F"
    "?Kd#`I^3JEaDPH%ux7)bxAxJqFHE&jyk*aA)@3rO{n7r_s|v%fT)S)k{BG8YX;shmf3Egyls*1&|BF<EzjwE9#2KG3^CdW7Izax!6vgRJNgq=N"
    "3AW<ojMUsjQ8orqE>$K8#zYXUB*B;j<ySI@$w|sc+Nd$eh;m7qGO!6q0u_leiOGo_V-~x>thS0tjRTarScy(uk~+XJW)Nj!01^T~%0`n-QjI|l"
    "=spxnl8`L<#j19LndrFvM}jStNVc5fR9nGLTFBzIMeGunn4B7i*at2KNf`+q$Dknpa4Se)OUz)>2LX$8M<57vgaB_x$8txfbVoNw$8<+$u#}^d"
    "lcS?Ah~ez$=m{1;(2fu(r(zfjVw7_^$Y`*V3b0@(LcJrLnF><s?E`XzBgjaj03fp*WP~r+J#LQ3PJ=StK~}qXL(O*vndAm`Po$$$Im8LB2u(2i"
    "BeB^Z8R+N^@+Z*0?oe@{7j11BBoqn~iwa9qOLUV93Um{Tit@`9%2JDpGxPHljLh^5^b93!WEdDAh~X$ORR;hIVE}P>>An"
)
"""A Parquet file whose second column states one level too many: asked for it, pyarrow 26 aborts the process."""


def test_a_parquet_file_whose_metadata_abort_pyarrow_is_refused_in_a_sentence(tmp_path):
    """In a process of its own, which had ended without a word of ours.  Other releases of pyarrow may read the file."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    path.write_bytes(zlib.decompress(base64.b85decode(ABORTS)))
    program = f"from gpbounds.rows.table_rows import read_rows; read_rows({str(path)!r})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    refused = f"ValueError: {path}: expected a Parquet file"
    assert ran.returncode == 0 or ran.stderr.splitlines()[-1].startswith(refused), ran.stderr


def test_a_parquet_file_whose_names_are_no_text_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    write_table(path, ["aaaa", "bbbb", "yyyy"], [np.column_stack([X, Y])])
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"aaa\xcf"))
    for read in (read_table, read_rows, lambda file: source(file, "yyyy")):
        with pytest.raises(ValueError, match="expected"):
            read(path)


def test_a_parquet_file_takes_no_memory_that_its_size_does_not_justify(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    column = pa.array(np.zeros(9_000_000))
    pyarrow.parquet.write_table(pa.table({"a": column}), path, compression="zstd")
    assert path.stat().st_size < 2**16
    with pytest.raises(ValueError, match="expected at most 1000 bytes of numbers"):
        read_table(path)


def test_a_header_that_states_its_own_length_wrongly_takes_no_memory(tmp_path):
    """A byte changed in the version makes four bytes of the header its length: 662 MB."""
    path = tmp_path / "X.npy"
    np.save(path, np.zeros(3))
    whole = path.read_bytes()
    path.write_bytes(whole[:6] + b"\x02" + whole[7:])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="expected an array in NumPy's format"):
            mapped(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# A sample of changed files


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.broad
@forks
@pytest.mark.parametrize("reader", ["tables: CSV", "of other libraries", ".npy"])
def test_a_sample_of_changed_files_is_refused_or_read_rightly(reader):
    counts, _ = record("fuzz.py", "--files", "80", "--readers", reader)
    assert counts["faults"] == []
    outcomes = next(iter(counts["by reader"].values()))
    assert counts["files"] == 80
    assert outcomes["refused"] > 40
    assert outcomes["accepted, states something else"] > 1  # a reader that refuses everything is none


@pytest.mark.slow
@forks
def test_a_larger_sample_of_changed_files_for_all_readers():
    counts, _ = record("fuzz.py", "--files", "6000", "--seed", "1")
    assert counts["faults"] == []
    assert len(counts["by reader"]) >= 10


def test_the_documentation_shows_the_counts_of_the_last_run():
    import fuzz

    table = json.loads(fuzz.STORED.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "how_to" / "interruptions.md").read_text(encoding="utf-8").splitlines()
    assert set(fuzz.rows(table)) <= set(page)


# Files that do not end


pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
READERS = {
    "table.csv": read_table,
    "table.csv.gz": read_table,
    "table.parquet": read_table,
    "rows.npy": mapped,
    "record.json": lambda path: read_json(path, "a record"),
    "model.npz": fitting.load,
}


@pipes
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_a_device_is_refused_before_it_is_opened(name, tmp_path):
    """Nobody writes to the pipe, so that opening it would wait for ever; the device never ends."""
    os.mkfifo(tmp_path / f"pipe {name}")
    (tmp_path / f"device {name}").symlink_to("/dev/zero")
    for kind in ("pipe", "device"):
        with pytest.raises(ValueError, match=rf"{kind} {name}.*: expected a regular file, got a {kind}"):
            READERS[name](tmp_path / f"{kind} {name}")
    (tmp_path / f"folder {name}").mkdir()
    with pytest.raises((OSError, ValueError), match=f"folder {name}"):
        READERS[name](tmp_path / f"folder {name}")


@pipes
def test_what_the_caller_has_opened_is_read_to_its_end_or_to_a_stated_size():
    """As the shell names a pipe that it has made: <(…) is /dev/fd/63."""
    ours, theirs = os.pipe()
    os.write(theirs, b"1,2\n3,4\n")
    os.close(theirs)
    try:
        assert content(f"/dev/fd/{ours}") == b"1,2\n3,4\n"
    finally:
        os.close(ours)


@pytest.mark.parametrize("size", [0, 1, 2**18, 2**18 + 1])
def test_a_file_is_read_up_to_a_stated_size(size, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert content(path, largest=size) == b"x" * size
    if size:
        with pytest.raises(ValueError, match=f"file: expected at most {size - 1} bytes, got more"):
            content(path, largest=size - 1)


def test_the_watcher_sees_what_a_hostile_file_does(tmp_path):
    """Memory, code and other files: in a process of its own, since an audit hook stays."""
    program = """
import os, pickle, sys
sys.path.insert(0, "verification")
from robustness import mutations, watching
watching.begin()
def read(action):
    return watching.watched(action, 100)[2]
print(len(read(lambda: 1)), len(read(lambda: bytearray(2**26))), len(read(lambda: eval("1"))),
      len(read(lambda: pickle.loads(pickle.dumps(mutations.Runs())))), len(read(lambda: open(os.devnull, "w"))),
      len(read(lambda: os.system("true"))))
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    counts = [int(word) for word in ran.stdout.split()]
    assert counts[0] == 0, ran.stderr
    assert len(counts) == 6
    assert min(counts[1:]) >= 1
