"""An import that reaches past a package's door is found, and this project has none."""

import grimp
import pytest

from tools.doors import ROOT, TOP_LEVEL, reaching_past


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return the lines about a house with a package and a module that uses it."""
    monkeypatch.syspath_prepend(tmp_path)

    def found(user, exported='["ring"]'):
        files = {
            "__init__": "",
            "user": user,
            "rings/__init__": f"from house.rings.ring import ring\n__all__ = {exported}\n",
            "rings/ring": "def ring(): ...\n",
            "rings/tree": "from house.rings.ring import ring\n",
        }
        (tmp_path / "house" / "rings").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "house" / f"{name}.py").write_text(text)
        return list(reaching_past(grimp.build_graph("house", cache_dir=None), tmp_path))

    return found


def test_an_import_past_a_door_is_reported_with_its_line(package):
    found = package("import sys\nfrom house.rings.ring import ring\n")
    assert found == [
        "house/user.py:2: house.rings.ring is private to house.rings: import it from there"
    ]


def test_a_plain_import_of_a_private_module_is_found_too(package):
    assert len(package("import house.rings.ring\n")) == 1


def test_what_a_package_exports_is_imported_from_it(package):
    assert not package("from house.rings import ring\n")


def test_each_module_of_a_package_that_exports_nothing_stands_for_itself(package):
    found = package("from house.rings.ring import ring\n", exported="[]")
    assert not found


@pytest.mark.wide  # `make lint` asks the same, and takes 4 s for it
def test_nothing_here_reaches_past_a_door():
    assert not list(reaching_past(grimp.build_graph(*TOP_LEVEL, cache_dir=None), ROOT))
