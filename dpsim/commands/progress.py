"""Progress bars on stderr, for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpsim.base.terminal import Talk, says


@contextmanager
def progress(what: str, total: int, *, rate: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr, only for work that takes longer than a moment.

    With ``rate`` it also shows how many are done per second. No bar if stderr is no terminal.
    """
    if not _is_shown():
        yield lambda done: None
        return
    from time import monotonic

    start = monotonic()
    bar: Any = None

    def done(count: int) -> None:
        nonlocal bar
        # Most commands are done before a bar would help, and Rich takes a while to import.
        if bar is None:
            if monotonic() - start < 1:
                return
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            columns = (
                TextColumn(what),
                BarColumn(),
                MofNCompleteColumn(),
                *_rate_column() * rate,
                TimeRemainingColumn(),
            )
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            bar.add_task(what, total=total)
        bar.update(bar.task_ids[0], completed=count)

    try:
        yield done
    finally:
        if bar is not None:
            bar.stop()


def _is_shown() -> bool:
    return sys.stderr.isatty() and says(Talk.NORMAL)


def _rate_column() -> list[Any]:
    """Return a column with the number done per second, once it is known."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.3g}/s")

    return [Rate()]


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show progress bars on stderr, one for each kind of work; none if stderr is no terminal."""
    if not _is_shown():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:

        def progress(what: str, done: int, total: int) -> None:
            # A kind of work gets its bar with its first report, since it is unknown before.
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done)

        yield progress
