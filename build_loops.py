"""Compiles dpsim's C files into a library beside them: part of every build by hatchling.

Without a C compiler dpsim is built without it, and numpy does its work. ``CC`` names another
compiler than ``cc``; empty, it names none. ``python build_loops.py`` builds it in the checkout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from runpy import run_path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Without fused multiply-adds, which round otherwise than numpy does.
_FLAGS = ("-O3", "-std=c99", "-fPIC", "-shared", "-ffp-contract=off")
_WITHIN = 300  # seconds


class LoopsHook(BuildHookInterface[Any]):
    """Adds the library to a wheel, which is one of this platform then."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before files are collected."""
        library = build(Path(self.root))
        if library is None:
            self.app.display_warning("no C compiler: simulating many flows will be slower")
            return
        build_data["artifacts"].append(str(library.relative_to(self.root)))
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"


def build(root: Path) -> Path | None:
    """Compile the library of the checkout at ``root``, and remove one of other C files.

    Returns None where there is no compiler, or it fails.
    """
    room = root / "dpsim" / "network"
    # The file alone: the package needs what may not be installed yet.
    library: Path = run_path(str(room / "kernel.py"))["library_of"](room)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    for other in set(library.parent.glob("*.so")) - {library}:
        other.unlink()
    if not compiler or shutil.which(compiler[0]) is None:
        return None
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder) / library.name
            command = [*compiler, *_FLAGS, "-o", str(made), *map(str, sorted(room.rglob("*.c")))]
            try:
                subprocess.run([*command, "-lm"], check=True, capture_output=True, timeout=_WITHIN)
            except (OSError, subprocess.SubprocessError):
                return None
            made.replace(library)  # in one go: another process may look for it now
    return library


if __name__ == "__main__":
    sys.exit(build(Path(__file__).parent) is None)
