"""YAML and JSON files that come with dpsim.

Parsing YAML would take a sixth of a short run, so its content is cached as JSON in the
user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def cache_folder() -> Path:
    """Return dpsim's cache folder, which need not exist and may not be writable."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "dpsim"


def shipped_yaml(file: Traversable) -> Any:
    """Return the content of a YAML file of dpsim."""
    text = file.read_bytes()
    # The cache file's name has the digest, so that another version's cache is never used.
    kept = cache_folder() / f"{Path(file.name).stem}-{hashlib.sha256(text).hexdigest()[:16]}.json"
    with suppress(OSError, ValueError):  # missing or damaged
        return json.loads(kept.read_bytes())

    from ruamel.yaml import YAML

    content = YAML(typ="safe", pure=True).load(text)
    with suppress(OSError):  # without a cache it takes a little longer each time
        _keep(kept, json.dumps(content))
    return content


@cache
def shipped_json(package: str, name: str) -> Any:
    """Return the content of a JSON file ``name`` in a package, read once; do not modify it."""
    return json.loads(files(package).joinpath(name).read_bytes())


def _keep(path: Path, content: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        made.write_text(content, encoding="utf-8")
        made.replace(path)  # atomic, because another process may be reading it
