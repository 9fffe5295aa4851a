"""``dpsim validate``: predictions beside measurements; one file a command."""

import typer

from dpsim.commands.validate.reference import reference

validate_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Compare predictions with measurements.",
)


@validate_app.callback()
def _validate() -> None:
    """Compare predictions with measurements."""


validate_app.command()(reference)

__all__ = ["reference", "validate_app"]
