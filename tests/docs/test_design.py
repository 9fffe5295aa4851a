"""The ground plan of DESIGN.md is that of the sources."""

import ast
import re

from document_blocks import ROOT

DESIGN = (ROOT / "DESIGN.md").read_text()


def first_sentence(room):
    """The first line of the docstring of a package."""
    source = (ROOT / "dpsim" / room / "__init__.py").read_text()
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


def test_the_ground_plan_has_every_room_with_its_own_sentence():
    planned = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", DESIGN, re.MULTILINE))
    rooms = {path.parent.name for path in (ROOT / "dpsim").glob("*/__init__.py")}
    assert planned == {room: first_sentence(room) for room in rooms}
