"""What is printed fits a terminal: no title, word or number is broken, and no column is cut."""

import os
import re
import shutil
import sys

import pytest
from rich.table import Table

from dpsim.base.terminal import show


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines that ``show`` prints on a terminal of so many columns; None: on no terminal."""

    def lines(columns, *parts):
        # Only meanwhile: pytest asks the same function when it reports.
        with monkeypatch.context() as terminal:
            size = os.terminal_size((columns or 80, 24))
            terminal.setattr(sys.stdout, "isatty", lambda: columns is not None)
            terminal.setattr(shutil, "get_terminal_size", lambda: size)
            show(*parts)
        return [
            re.sub(r"\x1b\[\d*m", "", line).rstrip()
            for line in capsys.readouterr().out.splitlines()
        ]

    return lines


def table(title=None):
    made = Table(title=title, title_justify="left", show_edge=False)
    made.add_column("kind")
    for heading in ("samples per second", "time of a step", "exposed communication"):
        made.add_column(heading, justify="right")
    made.add_row("a name of four words", "1,234 samples/s", "289.2 ms", "92.9 us")
    return made


def test_a_title_is_wider_than_its_table(printed):
    title = "a scenario of a long name: what the critical path of its second step is made of, and of how much of each of it"
    assert printed(None, table(title))[0] == title


@pytest.mark.parametrize("columns", [79, 70])
def test_a_table_is_as_narrow_as_the_terminal(printed, columns):
    lines = printed(columns, table())
    assert max(map(len, lines)) <= columns
    for whole in ("1,234 samples/s", "289.2 ms", "92.9 us", "communication", "second"):
        assert whole in "\n".join(lines)


@pytest.mark.parametrize("columns", [10, 40])
def test_a_table_takes_the_room_that_its_numbers_need(printed, columns):
    text = "\n".join(printed(columns, table()))
    for whole in ("1,234 samples/s", "289.2 ms", "92.9 us", "words"):
        assert whole in text


def test_a_table_without_rows_has_its_headings(printed):
    made = Table(show_edge=False)
    made.add_column("one heading")
    made.add_column("another heading", justify="right")
    assert printed(20, made)[:2] == [" one     ┃  another", " heading ┃  heading"]


def test_prose_makes_way_for_its_longest_word_at_most(printed):
    made = Table(show_edge=False)
    made.add_column("name", overflow="fold")
    made.add_column("source", overflow="fold")
    made.add_row(
        "ring", "github.com/somebody/something/of/a/very/long/path/indeed.xml, which says so"
    )
    lines = printed(40, made)
    assert max(map(len, lines)) <= 40
    assert "indeed.xml" in "".join(lines).replace(" ", "").replace("┃", "").replace("│", "")


def test_a_long_line_goes_on_two_columns_further_in(printed):
    assert printed(20, "rate        one two three", "  four five six seven eight") == [
        "rate        one two",
        "  three",
        "  four five six",
        "    seven eight",
    ]
    assert printed(20, "", "a\nb") == ["", "a", "b"]


def test_no_cell_of_csv_is_a_formula_or_drives_a_terminal():
    from dpsim.base.terminal import csv_text

    names = ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "a\x1b[31mb", "plain", -1, 2.5, None]
    assert csv_text([names]) == "'=1+1,'+1,'-1,'@SUM(A1),' =1,a\\x1b[31mb,plain,-1,2.5,\n"
