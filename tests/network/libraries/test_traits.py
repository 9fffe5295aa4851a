"""A library's stated traits are what its model does."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups
from dpsim.hardware import Transport
from dpsim.network import named_model, transport_model
from dpsim.network.libraries import (
    LIBRARIES,
    TRAITS,
    automatic_library,
    chooses,
    default_algorithm,
    library_model,
    name_for_users,
)
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


@pytest.mark.parametrize("library", LIBRARIES)
def test_who_chooses_needs_no_algorithm_by_name(library):
    cluster = build_cluster(ClusterConfig(nodes=2, node="dgx-h100"))
    model = named_model("auto", default_algorithm(library), cluster, library=library)
    runs_a_schedule = hasattr(model, "schedule")
    assert runs_a_schedule != chooses(library)


def test_a_library_that_is_yet_to_be_chosen_will_choose():
    assert (chooses("auto"), default_algorithm("auto")) == (True, "auto")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_measured_transport_times_those_that_send_through_sockets(library):
    cluster = build_cluster(ClusterConfig(nodes=2, node="dgx-h100"))
    found = transport_model("ring", cluster, Transport(cores=2), library=library)
    assert (found is not None) == TRAITS[library].on_sockets


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_a_choice_between_protocols_is_explained_by_those_that_say_so(library):
    cluster = build_cluster(ClusterConfig(nodes=2, node="dgx-h100"))
    model = library_model(library, "auto", cluster)
    assert hasattr(model, "explain") == TRAITS[library].weighs_protocols


@pytest.mark.parametrize(
    ("node", "name"),
    [("dgx-h100", "NCCL"), ("oci-bm-gpu-mi300x-8", "RCCL"), ("p3.2xlarge", "NCCL")],
)
def test_auto_says_whose_library_serves_the_gpus(node, name):
    """A scenario says nccl, and AMD's GPUs run RCCL."""
    cluster = build_cluster(ClusterConfig(nodes=2, node=node))
    found = automatic_library("auto", cluster)
    assert found.library == "nccl"
    assert found.why == f"auto: {name} serves these GPUs and has the algorithm"
    assert name_for_users("nccl", cluster) == name
    assert name_for_users("gloo", cluster) == "gloo"
