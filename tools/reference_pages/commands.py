"""The page of the command line: every command with its help, arguments, options and defaults."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer

from tools.reference_pages.markdown import anchor, heading, page, plain, summary, table

_WORDS = {str: "text", int: "whole number", float: "number", Path: "path"}


def commands_page(app: typer.Typer, exit_codes: str) -> str:
    """Return the page of every command of ``app``; ``exit_codes`` describes their exit codes."""
    group: Any = typer.main.get_command(app)
    found = dict(sorted(_commands("dpsim", group)))
    contents = table(
        ["command", "what it does"],
        ([f"[`{name}`]({anchor(name)})", summary(one.help)] for name, one in found.items()),
    )
    lines = [plain(exit_codes), "", *_common(found.values()), "", *contents]
    for name, one in found.items():
        lines += _section(name, one)
    return page("Commands", "the command line", lines)


def _common(commands: Iterable[Any]) -> Iterator[str]:
    """Yield the options that several commands share."""
    of_all = [{option.name: option for option in one.params} for one in commands]
    # Options that are not passed to a command's own function are common to several.
    common: dict[str, Any] = {}
    for options in of_all:
        common |= {name: each for name, each in options.items() if not each.expose_value}

    of_every: list[str] = []
    of_some: list[str] = []
    for name, option in common.items():
        is_of_every = all(name in options for options in of_all)
        (of_every if is_of_every else of_some).append(_in_a_sentence(option))
    yield f"Every command takes {' and '.join(of_every)}."
    yield f"Those with `--json` take {' and '.join(of_some)}."


def _in_a_sentence(option: Any) -> str:
    words = sorted(option.opts, key=len)
    text = plain(option.help).rstrip(".")
    return f"`{'`, `'.join(words)}` ({text[0].lower()}{text[1:]})"


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands below one, by the words that call them."""
    for word in command.list_commands(None):
        below = command.get_command(None, word)
        called = f"{name} {word}"
        # Recognise a group by its attribute: its class is of click, of which typer has a copy.
        if hasattr(below, "commands"):
            yield from _commands(called, below)
        else:
            yield called, below


def _section(name: str, command: Any) -> Iterator[str]:
    yield from heading(2, name)
    for paragraph in command.text.split("\n\n"):
        yield plain(paragraph)
        yield ""
    if command.examples:
        yield from (f"- `{example}`" for example in command.examples)
        yield ""
    # The function's own types are more specific than typer's.
    hints = get_type_hints(inspect.unwrap(command.callback))
    own = [each for each in command.params if each.expose_value and not each.hidden]
    rows = [_row(each, hints[each.name]) for each in own]
    yield from table(["argument or option", "takes", "if left out", "what it is"], rows)


def _row(parameter: Any, hint: Any) -> list[str]:
    names = [parameter.name.upper()]
    if parameter.param_type_name == "option":
        names = [*parameter.opts, *parameter.secondary_opts]
    takes = "" if _bare(hint) is bool else _takes(parameter, hint)
    return [
        ", ".join(f"`{name}`" for name in sorted(names, key=len)),
        takes,
        _default(parameter),
        plain(parameter.help or ""),
    ]


def _takes(parameter: Any, hint: Any) -> str:
    kind = _bare(hint)
    several = get_origin(kind) in (list, tuple)
    one = _bare(get_args(kind)[0]) if several else kind
    word = f"`{parameter.metavar}`" if parameter.metavar else _WORDS[one]
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None:
        word += f", {least:,} to {most:,}" if most is not None else f", at least {least:,}"
    return f"{word}; several" if several else word


def _bare(hint: Any) -> Any:
    """Return a type without the None of an optional option."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(option for option in get_args(hint) if option is not types.NoneType)
    return hint


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    # For a pair of options such as --browser and --no-browser.
    if value is True:
        return f"`{parameter.opts[0]}`"
    if value in (None, False, [], ()):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
