"""Carries out the blocks of a document, one after the other, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

from document_blocks import ROOT, Block, blocks
from ruamel.yaml import YAML

from dpsim import cli, load_scenario
from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario

OUTDATED = "the output is another one: run 'make golden', and look at the difference"
TIMEOUT_S = 300
SHOWN = ("", "text", "json", "csv", "toml")  # languages of blocks that nothing is done with
_SOURCES = ("dpsim", "validate", "app", "tests", "pyproject.toml")
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "data", "*_cache", "bench")
_SHELL = set("|&;<>$`*?(){}")
_PIPED = re.compile(r"(?P<command>[^|&;<>$`*?(){}'\"]* )(?P<how>[|>])(?P<rest> .*)")


class WrongBlockError(Exception):
    """A block that does not do what the document says."""


class Walk:
    """The state between blocks.

    The folder with its files, what was printed last, and ``quotes``: what each quote should say.

    ``has`` names what is there of the things that blocks may need. Where ``apart`` is set, Python
    has a process of its own, and what runs on edited sources, and what is slow, is run. The folder holds copies of
    ``scenarios/`` and ``validate/recorded/`` and, once a block edits or adds to them, of the
    sources.
    """

    def __init__(self, folder: Path, has: Iterable[str] = (), *, apart: bool = False) -> None:
        self.folder = folder
        self.has = set(has)
        self.apart = apart
        self.printed: str | None = None
        self.quotes: dict[Block, str] = {}
        self.own_sources = False
        shutil.copytree(ROOT / "scenarios", folder / "scenarios")
        shutil.copytree(ROOT / "validate" / "recorded", folder / "validate" / "recorded")

    def problems(self, content: str) -> Iterator[str]:
        """Everything in the document that is not so, with its line."""
        if indented := re.search(r"^[ \t]+```", content, re.MULTILINE):
            yield f"{content[: indented.end()].count(chr(10)) + 1}: a fence must stand at the margin"
        for block in blocks(content):
            try:
                self.carry_out(block)
            except (WrongBlockError, DpsimError) as problem:
                yield f"{block.line}: {problem}"

    def carry_out(self, block: Block) -> None:
        """Do what the block says. Raises WrongBlockError or DpsimError where that fails."""
        runs = block.language in ("python", "sh", "console") and not block.mark.startswith("file")
        if runs and self.own_sources and not self.apart:
            self.printed = None
            return
        match block.mark.partition(": "):
            case ("", _, _):
                self._by_language(block)
            case ("file", _, name):
                self._write(name, block)
            case ("output", "", _):
                self._quote(block)
            case ("slow", "", _) | ("slow output of", _, _) if not self.apart:
                self.printed = None
            case ("slow", "", _):
                self._by_language(block)
            case ("output of" | "slow output of", _, command):
                self._commands(command, 0)
                self._quote(block)
            case ("exits", _, code):
                self._commands(block.text, int(code))
            case ("needs", _, "torch" | "distributed" | "testbed" as what):
                self.printed = None
                if what in self.has:
                    self._by_language(block)
            case ("not run", _, str(why)) if why:
                self.printed = None
            case _:
                raise WrongBlockError(
                    "a mark must be one of those of tests/docs/document_blocks.py, but got "
                    f"{block.mark!r}"
                )

    def _by_language(self, block: Block) -> None:
        match block.language:
            case "python":
                self.printed = self._python(block.text)
            case "sh" | "console":
                self._commands(block.text, 0)
            case "yaml":
                self._scenario(block.text)
            case "diff":
                self._edit(block.text)
            case language if language not in SHOWN:
                raise WrongBlockError(
                    "a block's language must be python, sh, yaml, diff, or text, but got "
                    f"{language!r}"
                )
            case _ if re.search(r"^(\$ )?dpsim ", block.text, re.MULTILINE):
                raise WrongBlockError(
                    "commands must stand in a block of language sh, or be marked as not run"
                )

    def _commands(self, text: str, code: int) -> None:
        """Run each line as a command; the last one ends with ``code``, those before it with 0."""
        lines = [
            line.removeprefix("$ ")
            for line in text.replace("\\\n", " ").splitlines()
            if line.strip() and line[0] != "#"
        ]
        self.printed = "".join(
            self._command(line, code if line is lines[-1] else 0) for line in lines
        )

    def _command(self, line: str, code: int) -> str:
        """What a command prints: on stdout, or where that is nothing, on stderr."""
        words = shlex.split(line, comments=True)
        if words[0] == "dpsim" and not self.own_sources:
            if not _SHELL & set(line.replace("'", '"').split('"')[0]):
                return self._here(words, code)
            piped = _PIPED.fullmatch(line)
            if piped and not self.apart and not code:
                # The shell is given what dpsim prints in this process.
                message = self._here(shlex.split(piped["command"]), 0)
                rest = piped["rest"] if piped["how"] == "|" else f"cat >{piped['rest']}"
                return self._process(["bash", "-euo", "pipefail", "-c", rest], 0, message)
        return self._process(["bash", "-euo", "pipefail", "-c", line], code)

    def _here(self, words: list[str], code: int) -> str:
        """Run dpsim in this process, which is quicker."""
        with mock.patch("sys.argv", words):
            return self._called(shlex.join(words), cli.main, code)

    def _python(self, text: str) -> str:
        """Run a script: by itself, or in this process, which is quicker."""
        if self.apart:
            return self._process([sys.executable, "-c", text], 0)
        script = partial(exec, compile(text, "<block>", "exec"), {"__name__": "__main__"})
        before = set(sys.modules)
        try:
            with mock.patch("sys.path", [str(self.folder), *sys.path]):
                return self._called(_first_line(text), script, 0)
        finally:
            for name in set(sys.modules) - before:
                if str(self.folder) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]

    def _called(self, command: str, function: Callable[[], object], code: int) -> str:
        out, err, ended = io.StringIO(), io.StringIO(), 0
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with contextlib.chdir(self.folder), streams[0], streams[1]:
            try:
                function()
            except SystemExit as end:
                ended = end.code if isinstance(end.code, int) else int(bool(end.code))
                err.write(end.code if isinstance(end.code, str) else "")
        return _expected(command, ended, code, out.getvalue(), err.getvalue())

    def _process(self, command: list[str], code: int, given: str | None = None) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # The document's own files first, then whatever dpsim the tests themselves import.
        imported = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": imported}
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return _expected(_first_line(command[-1]), ran.returncode, code, ran.stdout, ran.stderr)

    def _quote(self, block: Block) -> None:
        if self.printed is not None:
            self.quotes[block] = message = trimmed(self.printed)
            if trimmed(block.text) != message:
                raise WrongBlockError(OUTDATED)

    def _write(self, name: str, block: Block) -> None:
        """Write the file; one that is a scenario must load."""
        path = self.folder / name
        if name.startswith(_SOURCES):
            self._copy_sources()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        if block.language == "yaml" and _is_scenario(_read(block.text)):
            load_scenario(path)

    def _scenario(self, text: str) -> None:
        """Load a scenario, or a part of one, which replaces what the quickstart says there."""
        content = _read(text)
        if not set(content) <= set(Scenario.model_fields):
            raise WrongBlockError(
                "a yaml block must be a scenario, a part of one, or marked as a file, or as not run"
            )
        path = self.folder / "block.yaml"
        path.write_text(text)
        if not _is_scenario(content):
            whole = _read((ROOT / "scenarios" / "quickstart.yaml").read_text())
            for key, value in content.items():
                other_kind = {"node", "groups"} & set(value) if key == "cluster" else False
                whole[key] = (
                    value
                    if other_kind or not isinstance(value, dict)
                    else {**whole.get(key, {}), **value}
                )
            if "testbed" in content:
                del whole["cluster"]
            YAML(typ="safe").dump(whole, path)
        load_scenario(path)

    def _edit(self, text: str) -> None:
        """Replace the old lines of each hunk, which must stand there once, by the new ones."""
        first, _, rest = text.partition("\n")
        if not first.startswith("+++ "):
            raise WrongBlockError("a diff block must begin with '+++ ' and the file's path")
        self._copy_sources()
        path = self.folder / first.removeprefix("+++ ").strip()
        content = path.read_text()
        for hunk in re.split(r"^@@.*\n", rest, flags=re.MULTILINE):
            lines = hunk.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] != other) for other in "+-")
            if content.count(old) != 1:
                raise WrongBlockError(
                    f"{first[4:]}: must hold the old lines once, but holds them "
                    f"{content.count(old)} times:\n{old}"
                )
            content = content.replace(old, new)
        path.write_text(content)

    def _copy_sources(self) -> None:
        """The folder gets copies of the sources, which its commands use from then on."""
        if self.own_sources:
            return
        for name in _SOURCES:
            source, target = ROOT / name, self.folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=_NOT_SOURCES, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
        self.own_sources = True


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def trimmed(text: str) -> str:
    """Without blank lines around and blanks at ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()


def refreshed(content: str, quotes: dict[Block, str]) -> str:
    """The document with each quote as it should be."""
    for block, message in sorted(quotes.items(), key=lambda item: -item[0].start):
        content = f"{content[: block.start]}{message}\n{content[block.end :]}"
    return content


def _expected(command: str, ended: int, code: int, out: str, err: str) -> str:
    if ended != code:
        raise WrongBlockError(
            f"{command!r} must end with {code}, but ended with {ended}: "
            f"{(err or out).strip()[-2000:]}"
        )
    if command.startswith("dpsim") and "Traceback" in err:
        raise WrongBlockError(f"{command!r} showed a traceback: {err[-2000:]}")
    return out or err


def _read(text: str) -> dict[str, object]:
    content = YAML(typ="safe").load(text)
    return content if isinstance(content, dict) else {"": content}


def _is_scenario(content: dict[str, object]) -> bool:
    return "workload" in content and bool({"cluster", "testbed"} & set(content))
