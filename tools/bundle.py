"""A folder of wheels for a node without network: ``python -m tools.bundle DIR PYTHON MACHINE``.

It holds dpsim and the dependencies of its validating commands, except torch. ``install.sh`` in the
folder installs them without network or root, for a given interpreter; ``sbom.cdx.json`` lists them.
Optional dependencies are left out: plots, tables in DuckDB, the dashboard.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# The project's dependencies that `dpsim validate run`, `node`, `microbench` and `backends` import;
# most nodes have numpy with torch, but not all.
NEEDED = ("numpy", "pydantic", "ruamel.yaml", "typer", "rich", "simpy", "networkx")
MOST_BYTES = 50 * 2**20
# The tags that a recent Linux accepts: pip requires every one by name.
_TAGS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_INSTALL = """#!/bin/sh
# Installs dpsim from this folder, without network or root: sh install.sh [PYTHON]
set -e
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
python=${1:-python3}
in_venv=$("$python" -c 'import sys; print(int(sys.prefix != sys.base_prefix))')
[ "$in_venv" = 1 ] && where= || where=--user
names=$("$python" -c '
import importlib.util, sys
# Keep installed packages, since the numpy here was chosen for the torch here.
names = [name for name in sys.argv[1:] if importlib.util.find_spec(name.split(".")[0]) is None]
print(" ".join(names))' @NEEDED@)
[ -z "$names" ] || "$python" -m pip install --no-index --find-links "$here" $where $names
"$python" -m pip install --no-index --no-deps --force-reinstall $where "$here"/dpsim_train-*.whl
"$python" -m dpsim --version
"""


def bundle(folder: Path, python: str, machine: str) -> int:
    """Write the wheels and ``install.sh``, and return their size in bytes. Raises SystemExit.

    They are for Linux, ``python`` such as 3.12, and ``machine`` x86_64 or aarch64.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    # Use the pinned build backend that is installed, without fetching another.
    built = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    # Compile nothing for another processor, where numpy replaces the compiled module.
    compiler = {} if machine == platform.machine() else {"CC": ""}
    subprocess.run(built, check=True, env=os.environ | compiler)
    command = [*pip, "download", "--only-binary=:all:", "--dest", str(folder)]
    command += ["-c", str(ROOT / "constraints.txt"), "--python-version", python]
    for tag in (*(f"{tag}_{machine}" for tag in _TAGS), "any"):
        command += ["--platform", tag]
    subprocess.run([*command, *NEEDED], check=True)

    script = folder / "install.sh"
    script.write_text(_INSTALL.replace("@NEEDED@", " ".join(NEEDED)))
    script.chmod(0o755)
    (folder / "sbom.cdx.json").write_text(json.dumps(sbom(folder), indent=2) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    if size > MOST_BYTES:
        sys.exit(f"bundle: must be at most {MOST_BYTES:,} bytes, but is {size:,}")
    return size


def sbom(folder: Path) -> dict[str, Any]:
    """Return the wheels in a folder as a bill of materials: CycloneDX 1.6, ECMA-424."""
    wheels = sorted(folder.glob("*.whl"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [_component(wheel) for wheel in wheels],
    }


def _component(wheel: Path) -> dict[str, Any]:
    name, version, *_ = wheel.name.split("-")
    name = name.replace("_", "-").lower()
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }


if __name__ == "__main__":
    about, *_ = (__doc__ or "").partition(":")
    parser = argparse.ArgumentParser(prog="python -m tools.bundle", description=f"{about}.")
    parser.add_argument("folder", type=Path, help="of the wheels and install.sh")
    parser.add_argument("python", help="the node's version, such as 3.12")
    parser.add_argument("machine", choices=("x86_64", "aarch64"), help="the node's processor")
    options = parser.parse_args()
    nbytes = bundle(options.folder, options.python, options.machine)
    size = f"{nbytes / 2**20:.1f} MiB"
    sys.stdout.write(
        f"{options.folder}: {size}, for Python {options.python} on {options.machine}\n"
    )
