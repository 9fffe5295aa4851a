"""Options shared by several of the validating commands."""

from __future__ import annotations

from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Backend = Annotated[str, typer.Option(help="auto, gloo or nccl.")]
ProfileName = Annotated[str, typer.Option(help="What predictions call the profile.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
