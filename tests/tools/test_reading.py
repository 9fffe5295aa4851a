"""What ``python -m tools.reading`` counts, in sources small enough to count by hand."""

import pytest

from tools import reading
from tools.reading import FirstCalls, first_calls, installed, read, together

SOURCE = '''\
"""A module."""


# Why this is here.
def double(x):
    """Twice ``x``."""

    return 2 * x
'''


def test_lines_that_are_blank_count_for_nothing():
    one = read(SOURCE)
    assert (one.lines, one.comments, one.long) == (5, 1, 0)
    assert one.functions == ((2, "double"),)  # without its docstring
    # Module; its docstring 2; def; arguments 2; docstring 2; return; product 5 (Load among them).
    assert one.nodes == 14
    assert one.nodes_a_line == 14 / 5


def test_a_line_of_101_columns_is_long():
    line = "x = 1  # " + "a" * 91
    assert len(line) == 100
    assert read(f"{line}\n").long == 0
    assert read(f"{line}a\n").long == 1


def test_several_files_are_counted_together():
    both = together([read(SOURCE), read("x = 1\n")])
    assert (both.lines, both.nodes) == (6, 14 + 5)
    assert both.row("both").split() == [
        *("both", "6", "3.2", "0.0%", "16.7%", "2", "2", "2", "double"),
    ]


def test_no_function_is_of_length_0():
    assert read("").row("empty").split()[1:] == ["0", "0.0", "0.0%", "0.0%", "0", "0", "0"]


def test_a_package_that_is_not_there_is_said_so():
    assert installed("a_package_that_nobody_has", "core.py") is None
    assert installed("simpy", "core.py").read_text().startswith('"""')


@pytest.fixture
def here_and_there(tmp_path, monkeypatch):
    """A function of one file that calls one of another file twice, then one of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "there_of_reading.py").write_text("def other():\n    return [x for x in (1, 2)]\n")
    (tmp_path / "here_of_reading.py").write_text(
        "from there_of_reading import other\n"
        "def begin():\n    other()\n    other()\n    own()\n"
        "def own():\n    return (lambda: 1)()\n"
    )
    from here_of_reading import begin

    return begin


def test_only_first_calls_count(here_and_there, tmp_path):
    assert first_calls(here_and_there, tmp_path) == FirstCalls(functions=3, files=2, changes=2)


def test_functions_outside_the_folder_do_not_count(here_and_there, tmp_path):
    assert first_calls(here_and_there, tmp_path / "below") == FirstCalls(0, 0, 0)


def test_all_of_it_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["reading", "--files", "2"])
    reading.main()
    said = capsys.readouterr().out
    for name in ("dpsim/collectives", "simpy/core.py", "httpx/_client.py", "optuna/samplers"):
        assert f"\n{name}" in said
    *_, last = said.splitlines()
    assert last.startswith("a warm dpsim run scenarios/quickstart.yaml: ")


MOST_LINES = 65  # of a function: options of a command are the longest lists that there are


def test_no_function_is_longer_than_a_reader_keeps_in_mind():
    readings = [*reading.readings().values()]
    found = [each for one in readings for each in one.functions if each[0] > MOST_LINES]
    assert found == []
