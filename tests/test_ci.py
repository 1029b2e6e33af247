"""What CI does is what the README says: its commands, on the systems that it names, without a number of threads."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
THREADS = ("OPENBLAS", "OMP", "MKL", "BLIS", "NUMEXPR", "GOTO")
VARIABLES = [*(f"{name}_NUM_THREADS" for name in THREADS), "VECLIB_MAXIMUM_THREADS"]
bash = pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")


def shell(program, **variables):
    """What ``program`` does after `.ci/threads`, in an environment that has these variables besides its own."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    words = ["bash", "-euo", "pipefail", "-c", f"source .ci/threads; {program}"]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


@bash
def test_the_machine_s_numbers_of_threads_are_deleted():
    ran = shell("unset_thread_variables; require_no_thread_variables; env", **dict.fromkeys(VARIABLES, "1"))
    assert ran.returncode == 0, ran.stderr
    assert "_THREADS=" not in ran.stdout


@bash
@pytest.mark.parametrize("name", VARIABLES)
def test_a_stage_that_leaves_a_number_of_threads_fails(name):
    assert shell("require_no_thread_variables").returncode == 0
    ran = shell(f"export {name}=1; require_no_thread_variables; echo next stage")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.rstrip().endswith(f"set: {name}")


def test_every_stage_looks_for_numbers_of_threads_and_no_file_of_ci_sets_one():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert run.index("unset_thread_variables") < run.index("\nstage ")
    assert re.search(r"stage\(\) \{\n  require_no_thread_variables\n", run)
    for path in [*(ROOT / ".ci").iterdir(), ROOT / "pyproject.toml", ROOT / "conftest.py", *ROOT.glob(".github/*/*")]:
        if path.is_file():
            assert not re.search(r"_THREADS\W{1,3}\d", path.read_text(encoding="utf-8")), path


def test_no_module_sets_the_threads_of_the_process_that_imports_it():
    """`robustness` did, so that all tests after it, and the processes that they started, had one thread."""
    program = (
        "import os, sys; sys.path.insert(0, 'verification'); before = dict(os.environ); "
        "import fuzz, kills, robustness.readers, robustness.killing, mutation.trial; "
        "print({k for k, v in os.environ.items() if before.get(k) != v and k.endswith('_THREADS')})"
    )
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.stdout == "set()\n", ran.stderr


@pytest.mark.slow  # as the stages of .ci/run do
def test_the_option_lanes_forces_lanes_on_any_machine():
    name = "tests/test_lanes.py::test_the_option_forces_lanes"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--lanes", "5", name]
    ran = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    if "threadpoolctl limits BLAS to" in ran.stdout:
        pytest.skip("threadpoolctl does not know this BLAS")
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout


def test_the_tests_that_set_threads_are_those_marked_lanes():
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        assert ("import blas_threads" in text) == ("pytestmark = pytest.mark.lanes" in text), path.name
        assert path.name == Path(__file__).name or "import threadpool_limits" not in text, path.name


def test_the_workflow_runs_both_commands_on_each_system_and_python():
    assert "command: [demo, test]" in WORKFLOW
    assert "readme_command.py ${{ matrix.command }}" in WORKFLOW
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in WORKFLOW
    versions = re.findall(r'"(3\.\d+)"', WORKFLOW)
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={versions[0]}"
    assert f"for version in {' '.join(versions)}; do" in (ROOT / ".ci" / "distribution").read_text(encoding="utf-8")
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", used) for used in re.findall(r"uses: (\S+)", WORKFLOW))


@pytest.mark.parametrize("name", ["demo", "test"])
def test_a_command_of_the_readme_has_no_carriage_return(name):
    """Which a shell on Windows would take for a part of the last word."""
    ran = subprocess.run([sys.executable, ".ci/readme_command.py", name], cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().rstrip("\n") in (ROOT / "README.md").read_text(encoding="utf-8")
    assert b"\r" not in ran.stdout


WITHOUT = """
import os, signal, subprocess, sys, tempfile
import flint, matplotlib.pyplot, mpmath, scipy.optimize, sklearn.gaussian_process, threadpoolctl, tqdm  # of this system
for module, names in ((os, "fork fchmod geteuid getloadavg getuid kill killpg mkfifo sched_getaffinity setsid sync "
                           "uname O_DIRECTORY WIFSIGNALED"),
                      (signal, "SIGHUP SIGKILL SIGALRM SIGPROF SIGUSR1 alarm setitimer getitimer pthread_sigmask")):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
"""
"""A Python that offers the packages no more of the system than Windows does."""


def test_the_packages_and_writing_need_nothing_that_windows_lacks_and_no_gpu(tmp_path):
    """Every module of both packages is imported, and none asks for CuPy on its own."""
    program = WITHOUT + (
        "import importlib, pkgutil, gpbounds, fitting\n"
        "class Asked(list):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('cupy', 'cupyx'): self.append(name)\n"
        "asked = Asked()\n"
        "sys.meta_path.insert(0, asked)\n"
        "for package in (gpbounds, fitting):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "assert asked == [name for name in sys.modules if name.startswith('cupy')] == []\n"
        "from gpbounds.cli import main\n"
        "from gpbounds.files import replacing\n"
        "for text in 'ab':\n"
        "    with replacing(sys.argv[1] + '/file') as file: file.write(text)\n"
        "sys.exit(main(['klinv', '0.02', '0.05']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("file", "b")]


def test_files_are_read_and_written_as_utf_8():
    """Windows takes the encoding of its user where none is named."""
    for folder in ("gpbounds", "fitting", "tests", "verification", "examples", ".ci"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "_text(" not in text:
                continue
            for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text"):
                    assert "encoding" in [each.arg for each in call.keywords], f"{path.name}:{call.lineno}"


def test_help_shows_the_options_of_this_project():
    """A percent sign in the help of one had made the help an error."""
    ran = subprocess.run([sys.executable, "-m", "pytest", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert all(option in ran.stdout for option in ("--slow", "--part=I/N", "--lanes=N", "--claims-report=FILE"))


def test_the_parts_of_the_tests_are_all_of_them_once(request):
    plugin = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))

    def kept(chosen):
        options = {"--slow": True, "--part": plugin.part(chosen)}
        hook = types.SimpleNamespace(pytest_deselected=lambda items: None)
        items = [*request.session.items]
        plugin.pytest_collection_modifyitems(types.SimpleNamespace(getoption=options.get, hook=hook), items)
        return [item.nodeid for item in items]

    parts = [kept("0/2"), kept("1/2")]
    assert sorted(parts[0] + parts[1]) == sorted(item.nodeid for item in request.session.items)
    for wrong in ("3/3", "1/0", "one", "-1/3"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"expected I/N .* 0 <= I < N, got '{wrong}'"):
            plugin.part(wrong)
