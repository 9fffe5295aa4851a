"""What a library is said to do is what its model does."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups
from dpsim.network.libraries import LIBRARIES, TRAITS, library_model
from dpsim.topology import ClusterConfig, build_cluster


def serves(library, operation):
    cluster = build_cluster(ClusterConfig(nodes=2, node="dgx-h100"))
    try:
        library_model(library, "auto", cluster, operation=operation, groups=Groups(8))
    except DpsimError:
        return False
    return True


def test_every_library_has_its_traits():
    assert set(TRAITS) == set(LIBRARIES)


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_groups_are_served_by_those_that_say_so(library):
    assert serves(library, "all-reduce") == TRAITS[library].in_groups
    assert serves(library, "broadcast") == TRAITS[library].broadcasts_in_groups
