"""What the tests of imports share."""

from pathlib import Path

DATA = Path(__file__).parent / "data"


def joined(node):
    """Each pair of devices of a node with its link's name and count, however its edges are
    written.
    """
    return {(frozenset((a, b)), link.name, count) for a, b, link, count in node.expand_edges()}


def assert_same_machine(node, other):
    assert joined(node) == joined(other)
    assert node.gpu == other.gpu
    assert node.nic_edges() == other.nic_edges()
    assert node.nics == other.nics
