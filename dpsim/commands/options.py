"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="A scenario file (YAML).", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace a value: cluster.nodes=8. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
