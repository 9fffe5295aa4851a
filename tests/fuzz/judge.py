"""What a case came to.

A result whose every number can be, a clear error, or something that nobody should see.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal
from unittest.mock import patch

LONGEST_LINE = 1000  # characters of a message
_SIGNED = (
    "change",
    "gain",
    "error",
    "spare_bytes",
    "saved",
    "low",
    "high",
    "slope",
    "elasticity",
    "loss",
    "delta",
)


_GROUPS = ("explain", "import", "validate")  # commands of which the second word is part
_AS_DATA = {"--json", "--csv", "-o", "--output"}
_OF_TIMES = ("run", "memory", "scale", "compare", "topology", "explain", "layer-split")


@dataclass(frozen=True)
class Step:
    """What happens before: files are written, one that matches ``spoil`` is, a command is run."""

    files: dict[str, str]
    command: tuple[str, ...] | None = None
    spoil: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Case:
    """Files by name, and what is done beside them.

    ``dpsim`` with arguments, or ``load_scenario`` of ``f.yaml`` and `simulate`.

    They are written to ``folder``, an empty one for each case if left out.
    """

    files: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    sets: tuple[str, ...] = ()
    folder: str | None = None
    before: tuple[Step, ...] = ()

    @property
    def called(self) -> str:
        """The command without its arguments."""
        if self.command is None:
            return "load and simulate"
        words = self.command[: 2 if self.command[0] in _GROUPS else 1]
        return " ".join(words)

    def to_line(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Case:
        """The case in a line of JSON."""
        read = json.loads(line)
        command = None if read["command"] is None else tuple(read["command"])
        before = tuple(_step(each) for each in read["before"])
        return cls(read["files"], command, tuple(read["sets"]), read["folder"], before)


def _step(read: dict[str, Any]) -> Step:
    command = None if read["command"] is None else tuple(read["command"])
    return Step(read["files"], command, read["spoil"], read["seed"])


@dataclass(frozen=True)
class Verdict:
    """``what`` it came to; ``why`` it was refused or is broken, and for that one where; seconds of
    processor, bytes of memory.
    """

    what: Literal["result", "refused", "broken"]
    why: str = ""
    where: str = ""
    seconds: float = 0.0
    bytes: int = 0


def judged(case: Case) -> Verdict:
    """What ``case`` comes to in this process and this folder."""
    if case.folder is not None:
        os.chdir(case.folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in case.before:
                verdict = _stepped(step)
                if verdict.what == "broken":
                    return verdict
            _write(case.files)
            return _simulated(case) if case.command is None else _commanded(case.command)
    except BaseException as error:
        return Verdict("broken", f"{type(error).__name__}: {str(error)[:300]}", _where(error))


def _write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).write_bytes(text.encode("utf-8", "surrogatepass"))


def _stepped(step: Step) -> Verdict:
    _write(step.files)
    if step.spoil:
        _spoil(step.spoil, Random(step.seed))
    return Verdict("result") if step.command is None else _commanded(step.command)


def _spoil(pattern: str, random: Random) -> None:
    """One of the files that match: changed in some bytes, cut, emptied, gone, or a folder."""
    found = sorted(path for path in Path().glob(pattern) if path.is_file())
    if not found:
        return
    path = random.choice(found)
    content = path.read_bytes()
    place = random.randrange(len(content) + 1)
    if random.random() < 0.5 and _is_text(content):
        from format_files import spoiled

        path.write_bytes(spoiled(random, content.decode()).encode("utf-8", "surrogatepass"))
        return
    changed = random.choice(
        (content[:place], b"", content[:place] + random.randbytes(4) + content[place + 4 :], None)
    )
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    elif random.random() < 0.5:
        path.mkdir()


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _simulated(case: Case) -> Verdict:
    from dpsim.base.errors import DpsimError
    from dpsim.engine import simulate
    from dpsim.scenario import load_scenario

    try:
        content = simulate(load_scenario("f.yaml", case.sets)).to_json()
    except DpsimError as error:
        return _refused(str(error), error)
    text = json.dumps(content, allow_nan=True)
    return _result(json.loads(text), text)


def _commanded(arguments: tuple[str, ...]) -> Verdict:
    from dpsim import cli

    out, err = io.StringIO(), io.StringIO()
    codes: list[int] = []
    failed: list[BaseException] = []
    with (
        patch.object(sys, "argv", ["dpsim", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            with patch.dict(os.environ, {"DPSIM_DEBUG": "1"}):
                cli.main()
        except SystemExit as end:
            codes.append(int(end.code or 0))
        except Exception as error:
            failed.append(error)
    if failed:
        return Verdict(
            "broken", f"{type(failed[0]).__name__}: {str(failed[0])[:300]}", _where(failed[0])
        )
    if "Traceback" in err.getvalue():
        return Verdict("broken", f"a traceback on stderr: {err.getvalue()[-300:]}")
    if codes[0] not in (0, 1, 2, 3):
        return Verdict("broken", f"ended with code {codes[0]}")
    if codes[0] in (1, 2):
        return _refusal(arguments, out.getvalue(), err.getvalue())
    if "--json" in arguments and out.getvalue().startswith("{"):
        return _result(json.loads(out.getvalue()), out.getvalue())
    return Verdict("result")


def _in_file(arguments: tuple[str, ...]) -> str:
    """What stands in the file of ``-o``, if there is one."""
    return "".join(path.read_text() for path in _outputs(arguments) if path.is_file())


def _to_device(arguments: tuple[str, ...]) -> bool:
    return any(path.is_char_device() or path.is_fifo() for path in _outputs(arguments))


def _outputs(arguments: tuple[str, ...]) -> list[Path]:
    return [Path(name) for option, name in pairwise(arguments) if option in ("-o", "--output")]


def _refusal(arguments: tuple[str, ...], out: str, err: str) -> Verdict:
    """Judge the output of a command that ended with code 1 or 2.

    `check` tells what is wrong in its answer: as data that is whole, however long.
    """
    if err or not _AS_DATA & {*arguments}:
        return _refused(err or out, None)
    text = out or _in_file(arguments)
    if not text and _to_device(arguments):
        return Verdict("refused", "written to a device, which keeps nothing")
    if not text:
        return _refused("", None)
    if text.startswith("{"):
        json.loads(text)
    return Verdict("refused", text[:400])


def _refused(message: str, error: BaseException | None) -> Verdict:
    """An error of dpsim: lines that can be printed and are not endless."""
    lines = message.splitlines()
    if not lines or not all(line.isprintable() and len(line) <= LONGEST_LINE for line in lines):
        return Verdict(
            "broken",
            f"an error that is no clear line: {message[:300]!r}",
            _where(error) if error else "message",
        )
    return Verdict("refused", message[:400])


def _result(content: Any, text: str) -> Verdict:
    for path, number in _numbers(content, ()):
        name = ".".join(str(part) for part in path if not isinstance(part, int))
        if not math.isfinite(number):
            return Verdict("broken", f"{name} is {number}", name)
        if (
            number < 0
            and content.get("kind", "run") in _OF_TIMES
            and not any(word in name for word in _SIGNED)
        ):
            return Verdict("broken", f"{name} is {number}", name)
    return Verdict("result", text[:200])


def _numbers(
    content: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Every number in a JSON value, with its path; texts that the user gave are not looked at."""
    if isinstance(content, dict):
        for key, below in content.items():
            yield from _numbers(below, (*path, key))
    elif isinstance(content, list):
        for place, below in enumerate(content):
            yield from _numbers(below, (*path, place))
    elif isinstance(content, float) and not isinstance(content, bool):
        yield path, content
    elif isinstance(content, int) and not isinstance(content, bool):
        yield path, float(min(content, 1))  # a large integer is finite


def _where(error: BaseException | None) -> str:
    """The innermost place in the project's own code."""
    if error is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if "/dpsim/" in frame.filename or "/validate/" in frame.filename
    ]
    frame = own[-1] if own else None
    return (
        ""
        if frame is None
        else f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.lineno} {frame.name}"
    )
