"""Add a user's own file to the catalogue: ``dpsim catalogue add``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_text_limited
from dpsim.base.terminal import write_whole
from dpsim.hardware.catalogue import (
    OWN_FOLDER,
    Catalogue,
    normalised,
    own_folder,
    read_entry,
    stated_aliases,
)
from dpsim.hardware.gpu import Gpu, gpus
from dpsim.hardware.link import Link, links
from dpsim.hardware.node import Node, nodes

_MOST_BYTES = 2**20


class Added(NamedTuple):
    """The added entry: its catalogue, name and file, and whether it overrides an entry."""

    catalogue: str
    name: str
    path: Path
    replaces: bool


def add_entry(path: Path) -> Added:
    """Check the file of a GPU, link or node, and copy it to the user's catalogue.

    The file's name is the entry's. Raises DpsimError with the file and its error.
    """
    text = read_text_limited(path, _MOST_BYTES)
    folder = own_folder()
    if folder is None:
        raise DpsimError(f"{OWN_FOLDER}: must be a folder's name to add to, but is empty")
    # First, because looking up names in a configured folder that does not exist is an error.
    folder.mkdir(parents=True, exist_ok=True)
    catalogue, model = _kind_of(path, text)
    entry = read_entry(path, model)
    _check_aliases(path, text, entry.aliases)
    name = normalised(path.stem)
    target = folder / catalogue.folder / f"{name}.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    replaces = name in catalogue
    write_whole(target, text)
    return Added(catalogue.folder, name, target, replaces)


def _kind_of(path: Path, text: str) -> tuple[Catalogue[Any], type[Gpu | Link | Node]]:
    """Return the kind of entry that a file describes, by a key that only this kind has."""
    keys = {line.partition(":")[0].strip("\"' ") for line in text.splitlines()}
    # Nodes first, because a node may describe GPUs and links, whose keys count as well.
    if "devices" in keys:
        return nodes(), Node
    if "peak" in keys:
        return gpus(), Gpu
    if "rate" in keys:
        return links(), Link
    raise DpsimError(
        f"{path}: must be the file of a GPU (with peak), a link (with rate) or a node (with "
        "devices), but has none of these keys"
    )


def _check_aliases(path: Path, text: str, aliases: tuple[str, ...]) -> None:
    """Raise DpsimError unless `stated_aliases` finds all aliases."""
    if list(aliases) != stated_aliases(text):
        raise DpsimError(
            f"{path}: aliases: must stand on one line, such as aliases: [One, Another]"
        )
