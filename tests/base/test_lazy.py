"""Imports that wait until the imported name is used."""

import sys
from importlib import import_module

import pytest

from dpsim.base.lazy import on_demand

DOOR = """
from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand

if TYPE_CHECKING:
    from lazy_rooms.far import Far
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = ["Far"]
"""


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """A package whose export is in a module that is loaded on demand."""
    folder = tmp_path / "lazy_rooms"
    folder.mkdir()
    (folder / "__init__.py").write_text(DOOR)
    (folder / "far.py").write_text("class Far: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("lazy_rooms")
    for name in [name for name in sys.modules if name.startswith("lazy_rooms")]:
        del sys.modules[name]


def test_an_export_is_imported_on_first_access(rooms):
    assert "Far" in dir(rooms)
    assert "lazy_rooms.far" not in sys.modules
    assert rooms.Far.__module__ == "lazy_rooms.far"
    assert vars(rooms)["Far"] is rooms.Far, "imported once"


def test_what_is_no_export_is_an_attribute_error(rooms):
    with pytest.raises(AttributeError, match="module 'lazy_rooms' has no attribute 'Near'"):
        _ = rooms.Near


def test_a_file_without_the_block_exports_nothing(tmp_path):
    file = tmp_path / "plain.py"
    file.write_text("import os\n")
    load, _ = on_demand("lazy_plain", str(file))
    with pytest.raises(AttributeError):
        load("os")
