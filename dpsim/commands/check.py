"""``dpsim check``: find the problems in scenario files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import ScenarioError
from dpsim.base.terminal import clear_line, show_answer
from dpsim.commands.options import Json


def check(
    files: Annotated[list[Path], typer.Argument(help="Scenario files (YAML).", show_default=False)],
    as_json: Json = False,
) -> None:
    """Check scenario files: every problem with its line, column, path and rule.

    The exit code is 2 if there is a problem.

    Example: dpsim check scenarios/quickstart.yaml
    Example: dpsim check scenarios/*.yaml --json
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.sweep import plan

    problems: dict[str, list[str]] = {}
    for file in files:
        try:
            # Each point of a sweep is a separate scenario, which may be invalid although the base
            # is valid.
            if load_scenario(file).sweep is not None:
                plan([file])
            problems[str(file)] = []
        except ScenarioError as error:
            problems[str(file)] = str(error).splitlines()
    if as_json:
        show_answer(
            "check", files=[{"file": name, "problems": found} for name, found in problems.items()]
        )
    else:
        for name, found in problems.items():
            # Not wrapped: tools parse file, line and column at the beginning of a line.
            lines = map(clear_line, found or [f"{name}: ok"])
            sys.stdout.write("\n".join(lines) + "\n")
    if any(problems.values()):
        raise typer.Exit(2)
