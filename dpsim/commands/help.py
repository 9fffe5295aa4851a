"""Commands and groups of commands: their common options, and the import of their modules.

Help is Typer's, with each example on a line of its own, ready to be copied, and with sentences that
are not cut. A group that names the homes of its commands imports each on demand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from dpsim.base.budget import limited
from dpsim.base.errors import DpsimError
from dpsim.base.files import refuse_code
from dpsim.base.terminal import Verbosity, clear_line, narrate, set_answer_output, set_verbosity

_EXAMPLE = "\nExample: "
_COMMON_OPTIONS = ("quiet", "verbose")
# Commands that limit the time of each simulation or of their study and then print the study's
# answer, or that simulate nothing. Every other command has one limit for all its work. "scenario"
# is ``dpsim explain FILE``.
_OWN_TIME_LIMIT = ("run", "sweep", "validate", "app", "scenario", "compare", "scale", "tune")
_ANSWER = "dpsim.answer"  # whether the answer goes to a file, or in another form
_OPTION = re.compile(r"--[a-z-]*")
_CONTINUED_LINE = re.compile(r"\n {4,}")


class _FullSentence:
    """Lists of commands have the first sentence of each in full."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, however long."""
        sentence: str = super().get_short_help_str(limit=1000)  # type: ignore[misc]
        return sentence


class Command(_FullSentence, TyperCommand):
    """A command with the options of all commands, whose help shows each example on one line.

    Its examples are the lines of its docstring that begin with ``Example:``. One that is too long
    for a line of source continues in a line that is indented further.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        text, *examples = _CONTINUED_LINE.sub(" ", self.help or "").split(_EXAMPLE)
        if examples:
            # Typer does not wrap a paragraph that begins with \b.
            lines = "".join(f"\n  {example}" for example in examples)
            heading = "Examples" if len(examples) > 1 else "Example"
            self.help = f"{text.rstrip()}\n\n\b\n{heading}:{lines}"
        # A command's own option takes precedence, such as -o for a file that it writes.
        taken = {name for param in self.params for name in param.opts}
        answers = "--json" in taken
        self.params += [
            option
            for option in _common_options()
            if not taken & {*option.opts} and (answers or option.name in _COMMON_OPTIONS)
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        An option without its value is an error; click would use the option that follows as the
        value.
        """
        if not ctx.resilient_parsing:  # a shell asks for completions
            self._refuse_options_as_values(ctx, list(args))
        return super().parse_args(ctx, args)

    def _refuse_options_as_values(self, ctx: Any, args: list[str]) -> None:
        names = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        # As text, since the parser has no types yet. A repeated option has a list.
        parsed, _, _ = self.make_parser(ctx).parse_args(args=args)
        for param in self.params:
            if param.param_type_name != "option":
                continue
            value = parsed.get(param.name)
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and (text in names or _OPTION.fullmatch(text)):
                    option = param.opts[0]
                    raise DpsimError(f"{option}: must be followed by a value, but got {text}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with ``-v`` report how long it took."""
        start = time.perf_counter()
        # A file or CSV is made from the JSON, so the command is run with --json.
        if ctx.meta.get(_ANSWER):
            ctx.params["as_json"] = True
        with nullcontext() if {*ctx.command_path.split()} & {*_OWN_TIME_LIMIT} else limited():
            answer = super().invoke(ctx)
        narrate(f"took {time.perf_counter() - start:.3g} s", Verbosity.VERBOSE)
        return answer


class Group(_FullSentence, TyperGroup):
    """A group that lists its commands with the first sentence of each.

    ``homes`` maps commands to ``"module:name"`` of their functions, or of the ``Commands`` below
    them, which are imported on demand. ``sections``: the headings under which they are listed, if
    there are several.
    """

    homes: ClassVar[Mapping[str, str]] = {}
    sections: ClassVar[Mapping[str, Iterable[str]]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Commands are None until first used, because lists and suggestions only need the names.
        not_imported: dict[str, Any] = dict.fromkeys(self.homes)
        self.commands = {**not_imported, **self.commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, imported if necessary; None if there is none."""
        if self.commands.get(cmd_name) is None and cmd_name in self.homes:
            self.commands[cmd_name] = _load_command(cmd_name, self.homes[cmd_name])
        return self.commands.get(cmd_name)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        try:
            return super().make_context(*args, **settings)
        except Exception as error:
            _raise_plainly(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            _raise_plainly(error)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands, below the headings of sections if there are any."""
        for heading, names in (self.sections or {"Commands": self.list_commands(ctx)}).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str())
                        for name, command in commands
                        if not command.hidden
                    ]
                )


def _raise_plainly(error: Exception) -> None:
    """Raise DpsimError instead of a usage error: one line with place, rule and value."""
    # Pydantic's errors have ``errors``; testing for it avoids importing pydantic for help.
    cause: Any = error.__cause__
    if hasattr(cause, "errors"):
        from dpsim.base.config import first_problem

        _, rule, given = first_problem(cause)
        option = error.param.opts[0]  # type: ignore[attr-defined]
        raise DpsimError(f"{option}: {rule}, but got {given!r:.60}") from None
    # Only click's usage errors have ``format_message``, and other messages are not for users.
    # NoArgsIsHelpError is no mistake: click raises it to show the help of a group.
    if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
        return
    message = clear_line(error.format_message()).rstrip(".")
    context, names = getattr(error, "ctx", None), list[str]()
    # The program itself has no parent; it may be called by another name.
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    where = f"{' '.join(names)}: " if names else ""
    help_call = " ".join(["dpsim", *names, "--help"])
    raise DpsimError(f"{where}{message[0].lower()}{message[1:]} ({help_call})") from None


class Commands(typer.Typer):
    """A Typer whose commands and groups have this help.

    Help has no markup, and tracebacks no decoration. ``is_root``: whether this is the root of all
    commands, which has ``--version`` and installs its shell completion.
    """

    def __init__(
        self,
        help: str = "",
        cls: type[Group] = Group,
        *,
        homes: Mapping[str, str] | None = None,
        sections: Mapping[str, Mapping[str, str]] | None = None,
        is_root: bool = False,
    ) -> None:
        # ``homes`` are set on a new class, because Typer makes the group from its class alone.
        if sections is not None:
            homes = {name: home for below in sections.values() for name, home in below.items()}
            cls = type("Sections", (cls,), {"homes": homes, "sections": sections})
        elif homes is not None:
            cls = type("Homes", (cls,), {"homes": homes})
        # Typer makes a group if there is a callback, even before it has a command.
        callback: Callable[..., None] | None = _nothing if cls.homes else None
        super().__init__(
            cls=cls,
            help=help,
            callback=_program if is_root else callback,
            no_args_is_help=True,
            context_settings={"help_option_names": ["--help", "-h"]},
            pretty_exceptions_enable=False,
            add_completion=is_root,
            rich_markup_mode=None,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Register a function as a command, under its own name if none is given."""
        return super().command(name, **{"cls": Command, **settings})


def _quiet(is_given: bool) -> None:
    if is_given:
        set_verbosity(Verbosity.QUIET)


def _verbose(is_given: bool) -> None:
    if is_given:
        set_verbosity(Verbosity.VERBOSE)


def _to_file(ctx: typer.Context, path: Path | None) -> None:
    if path is not None:
        if path.suffix == ".parquet":
            raise DpsimError(
                f"-o: must end in .json or .csv, but got {path.name!r}; a sweep's folder has "
                "results.parquet"
            )
        ctx.meta[_ANSWER] = True
        set_answer_output(path, is_csv=path.suffix == ".csv")


def _as_csv(ctx: typer.Context, is_given: bool) -> None:
    if is_given:
        ctx.meta[_ANSWER] = True
        set_answer_output(is_csv=True)


def _no_code(is_given: bool) -> None:
    if is_given:
        refuse_code()


def _in_every_command(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=_to_file,
            expose_value=False,
            help="Write the JSON to this file; .csv: rows of comma-separated values.",
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            callback=_as_csv,
            expose_value=False,
            help="Print rows of comma-separated values instead of a table.",
        ),
    ] = False,
    no_code: Annotated[
        bool,
        typer.Option(
            "--no-code",
            callback=_no_code,
            expose_value=False,
            help="Refuse scenarios that name code to run, such as a torch model's factory.",
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "-q", "--quiet", callback=_quiet, expose_value=False, help="Print errors only."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            callback=_verbose,
            expose_value=False,
            help="Print the elapsed time, and the traceback of an unexpected error.",
        ),
    ] = False,
) -> None:
    """Define the options of every command; the first three are for those with JSON answers."""


@cache
def _common_options() -> list[Any]:
    # Typer only makes options from a function's signature.
    single = typer.Typer(add_completion=False)
    single.command()(_in_every_command)
    return typer.main.get_command(single).params


def _nothing() -> None:
    """Do nothing: the callback of a group."""


def _version(is_asked: bool) -> None:
    if is_asked:
        from dpsim.base.provenance import __version__

        typer.echo(f"dpsim {__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Do nothing: the callback of the program."""


@cache
def _load_command(name: str, home: str) -> Any:
    """Return the command or group at ``home``, such as ``"dpsim.commands.run:run"``."""
    target = resolve_name(home)
    if isinstance(target, Commands):
        command = typer.main.get_command(target)
        command.name = name
        return command
    # With one command and no callback Typer makes that command itself, without a group.
    single = Commands()
    single.command(name)(target)
    return typer.main.get_command(single)
