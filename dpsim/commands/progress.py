"""Progress bars on stderr, for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from dpsim.base.terminal import Verbosity, shows_messages

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show one progress bar, as `bars` does; call it with how many of ``total`` are done."""
    with bars() as report:
        yield lambda done: report(what, done, total)


@contextmanager
def bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show progress bars on stderr, one for each kind of work, once it takes longer than a moment.

    Call it with the kind of work, how much is done, and the total, None if unknown. Shows nothing
    if stderr is no terminal.
    """
    if not (sys.stderr.isatty() and shows_messages(Verbosity.NORMAL)):
        yield lambda what, done, total: None
        return
    start = monotonic()
    shown: Progress | None = None
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal shown
        # Most commands are done before a bar would help, and Rich takes a while to import.
        if shown is None:
            if monotonic() - start < 1:
                return
            shown = _empty()
            shown.start()
        # A kind of work gets its bar with its first report, since it is unknown before.
        if what not in tasks:
            tasks[what] = shown.add_task(what, total=total)
        shown.update(tasks[what], completed=done)

    try:
        yield report
    finally:
        if shown is not None:
            shown.stop()


def _empty() -> Progress:
    """Return bars with the amount done, how much of it a second, and the time that remains."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.3g}/s")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
