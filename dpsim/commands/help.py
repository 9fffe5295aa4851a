"""How ``--help`` looks.

Each example on a line of its own, ready to be copied, and each command's first sentence in full.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

EXAMPLE = "Example: "


class Command(TyperCommand):
    """A command whose examples are not run together to a paragraph.

    The lines of its docstring that begin with ``Example:``.
    """

    @property
    def text(self) -> str:
        """The docstring without its examples."""
        return "\n".join(line for line in self._lines if not line.startswith(EXAMPLE)).strip()

    @property
    def examples(self) -> list[str]:
        """What to type, an example each."""
        return [line.removeprefix(EXAMPLE) for line in self._lines if line.startswith(EXAMPLE)]

    @property
    def _lines(self) -> list[str]:
        return inspect.cleandoc(self.help or "").splitlines()

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the text as paragraphs, and below it the examples, which are not wrapped.

        They are there to be copied.
        """
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self.text)
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                formatter.write(
                    "".join(
                        f"{'':{formatter.current_indent}}{example}\n" for example in self.examples
                    )
                )


class Group(TyperGroup):
    """A group that lists its commands with the first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; sentences go over as many lines as they need."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, one.get_short_help_str(limit=1000))
                    for name, one in found
                    if one and not one.hidden
                ]
            )


class Commands(typer.Typer):
    """A Typer without shell completion, markup and decorated tracebacks, whose commands and groups
    have this help.
    """

    def __init__(self, help: str, cls: type[Group] = Group) -> None:
        super().__init__(
            cls=cls,
            help=help,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            add_completion=False,
            rich_markup_mode=None,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Register a function as a command, under its own name if none is given."""
        return super().command(name, **{"cls": Command, **settings})
