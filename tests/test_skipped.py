"""Skipped tests are counted by reason, can be run separately, and fail in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SUITE = """
import os, pytest

@pytest.mark.parametrize("text", ["one", "a b\\n"])
def test_a(text):
    if os.environ.get("LACKS") == "1":
        pytest.skip("torch is not installed: pip install it")

@pytest.mark.skip("no chromium is installed (Debian: apt-get install chromium)")
def test_b():
    pass

def test_c():
    pass
"""
WHOLE_FILE = "import pytest; pytest.importorskip('no_such_package')"
# Before anything is imported, for which this is named by -p.
WITHOUT_EXTRAS = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec

def find_spec(name, *more):
    return None if name in ("torch", "transformers") else found(name, *more)

PathFinder.find_spec = find_spec
"""


def pytest_says(folder, *arguments, **changed):
    """Exit code and lines of a pytest that has ``folder`` and this one on its path."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    path = os.pathsep.join(map(str, (folder, TESTS, TESTS.parent)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        env={**own, "CI": "", "PYTHONPATH": path, **changed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Says what a tiny suite ends with, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("test_it.py").write_text(SUITE)
    Path("test_whole.py").write_text(WHOLE_FILE)
    return lambda *arguments, **changed: pytest_says(
        tmp_path, "-p", "skipped", "--rootdir", tmp_path, *arguments, **changed
    )


def test_the_last_line_counts_by_reason(suite):
    code, lines = suite(LACKS="1")
    assert code == 0
    assert lines[-1] == (
        "skipped 4: torch is not installed (2), no_such_package is not installed (1), "
        "no chromium is installed (1)"
    )


def test_skipped_tests_can_be_run_separately(suite):
    suite(LACKS="1")
    _, lines = suite("@.pytest_cache/skipped")
    assert lines[-2].startswith("2 passed, 2 skipped in ")


def test_in_ci_it_is_a_failure_that_something_is_not_installed(suite):
    assert suite("test_it.py", CI="true")[0] == 0
    assert suite("test_whole.py", "test_it.py", CI="true")[0] == 1


@pytest.mark.torch
def test_the_suite_is_collected_without_extras(tmp_path, monkeypatch):
    """Without torch it is collected without torch anyway: by whoever runs this."""
    monkeypatch.chdir(TESTS.parent)
    (tmp_path / "without_extras.py").write_text(WITHOUT_EXTRAS)
    arguments = ("--collect-only", "-n", "0", "-p", "without_extras", "-p", "no:cacheprovider")
    code, lines = pytest_says(tmp_path, *arguments)
    assert code == 0, "\n".join(lines[-30:])
