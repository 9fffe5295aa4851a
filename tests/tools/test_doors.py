"""An import that reaches past a package's door is found, and this project has none."""

import pytest

from tools.doors import modules, reaching_past


def _write(root, **files):
    for name, text in files.items():
        path = root / "dpsim" / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _package(root, user, exported='["ring"]'):
    _write(
        root,
        user=user,
        **{
            "collectives____init__": f"from dpsim.collectives.ring import ring\n__all__ = {exported}\n",
            "collectives__ring": "def ring(): ...\n",
            "collectives__tree": "from dpsim.collectives.ring import ring\n",
        },
    )
    return list(reaching_past(modules(root)))


def test_an_import_past_a_door_is_told_with_its_line(tmp_path):
    found = _package(tmp_path, "import sys\nfrom dpsim.collectives.ring import ring\n")
    assert found == [
        "dpsim/user.py:2: dpsim.collectives.ring is private to dpsim.collectives: "
        "import it from there"
    ]


def test_a_plain_import_of_a_private_module_is_found_too(tmp_path):
    assert len(_package(tmp_path, "import dpsim.collectives.ring\n")) == 1


def test_what_a_package_exports_is_imported_from_it(tmp_path):
    assert not _package(tmp_path, "from dpsim.collectives import ring\n")


def test_each_module_of_a_package_that_exports_nothing_stands_for_itself(tmp_path):
    found = _package(tmp_path, "from dpsim.collectives.ring import ring\n", exported="[]")
    assert not found


@pytest.mark.wide  # `make lint` asks the same, and takes 4 s for it
def test_nothing_here_reaches_past_a_door():
    assert not list(reaching_past(modules()))
