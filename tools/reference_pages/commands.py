"""The page of the command line, as Typer documents it: help, arguments and options of commands."""

from __future__ import annotations

import re
import subprocess
import sys

from tools.reference_pages.markdown import page, plain

_TYPER = (sys.executable, "-m", "typer", "--app", "app", "dpsim.cli", "utils", "docs")
# Examples as a list, and usage as code on a line, which is no example to run.
_LAID_OUT = (
    (re.compile(r"^\x08\n(Examples?:)\n", re.MULTILINE), r"\1\n\n"),
    (re.compile(r"^  (.+)", re.MULTILINE), r"- `\1`"),
    (re.compile(r"^```console\n\$ (.+)\n```", re.MULTILINE), r"`\1`"),
)


def commands_page(exit_codes: str) -> str:
    """Return the page of every command; ``exit_codes`` describes their exit codes."""
    command = [*_TYPER, "--name", "dpsim"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # The page has a title of its own.
    text = output.partition("\n")[2].strip()
    for pattern, instead in _LAID_OUT:
        text = pattern.sub(instead, text)
    return page("Commands", "the command line", [plain(exit_codes), "", *text.splitlines()])
