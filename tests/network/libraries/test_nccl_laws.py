"""NCCL's predicted times over sizes, cards and nodes, held to what measured tables show.

Tables that publish two curves of a machine tell steps of NCCL from noise: how often both fall, or
both more than double, when the bytes double.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import validate.published
from dpsim.base.errors import DpsimError
from dpsim.hardware import nodes as catalogue
from dpsim.network.libraries.nccl import NcclModel, predict
from dpsim.topology import ClusterConfig, build_cluster
from validate.published.nccl.table import read_table

SIZES = [2**octave for octave in range(3, 34)]
HUGE = 2**36  # bytes so many that only rates count
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
FALL, STEEP = 0.95, 2.4  # of the seconds, when the bytes double
# How much more rings over two nodes move than those of one: they have more channels, which links of
# PCIe do not mind, and a GPU copies the less of its own share the more GPUs there are. AMD's tables
# inside a node and between nodes are of other machines.
CHANNELS = {"pcie": 1.08, "nvswitch": 1.2, "nvlink-mesh": 1.2, "xgmi": 1.25}
TABLES = (
    ("nccl_tests.csv", "nccl-tests"),
    ("nccl_tests_2.csv", "nccl-tests"),
    ("nccl_single_node.csv", "nccl-single-node"),
)


@cache
def measured():
    """The published curves of quality ok."""
    data = Path(validate.published.__path__[0]) / "data"
    every = (case for name, kind in TABLES for case in read_table(data / name, kind))
    return [case for case in every if case.quality == "ok"]


def test_no_measured_collective_is_faster_than_its_links():
    shares = [
        case.machine.least_seconds(case.op, nbytes) / seconds
        for case in measured()
        for nbytes, seconds in zip(case.nbytes, case.times, strict=True)
    ]
    assert len(shares) > 7000
    assert 0.95 < max(shares) <= 1


@cache
def measured_steps():
    """The least and the greatest growth over two sizes of all curves of a machine, of two or more."""
    growth = defaultdict(list)
    for case in measured():
        same = case.machine_name, case.machine, case.op, case.element_bytes
        for step in zip(case.nbytes, case.times, case.nbytes[1:], case.times[1:], strict=False):
            nbytes, seconds, more, later = step
            if more == 2 * nbytes:
                growth[same, nbytes].append(later / seconds)
    return np.array([(min(found), max(found)) for found in growth.values() if len(found) > 1])


def test_no_measured_time_falls_in_two_curves_alike_or_grows_steeply_in_both():
    least, greatest = measured_steps().T
    assert len(least) > 650
    assert not (greatest < FALL).any()
    assert not (least > STEEP).any()


def most_steps():
    """The share of steps up to which none in the tables is no surprise (95 %)."""
    return 3 / len(measured_steps())


def models(seed, count):
    """NCCL's models of random clusters of the catalogue, with random operations."""
    random = np.random.default_rng(seed)
    names = sorted(catalogue())
    found = []
    while len(found) < count:
        node = names[random.integers(len(names))]
        config = {"node": node, "nodes": int(random.choice([1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 32]))}
        if random.random() < 0.35:
            config["gpus_per_node"] = int(random.integers(1, catalogue()[node].gpus + 1))
        operation = OPERATIONS[random.choice(len(OPERATIONS), p=[0.4, 0.2, 0.15, 0.15, 0.1])]
        try:
            model = NcclModel(build_cluster(ClusterConfig(**config)), operation=operation)
        except DpsimError:
            continue  # TPUs, and GPUs that a catalogue's node cannot be cut to
        if model.machine.ranks > 1:
            found.append(model)
    return found


@pytest.fixture(
    scope="module",
    params=[(0, 40), *(pytest.param((seed, 50), marks=pytest.mark.wide) for seed in range(1, 7))],
    ids=str,
)
def clusters(request):
    return models(*request.param)


def is_long_chain(model):
    """NCCL's estimate of a chain does not count how long it is: what it then runs may cost more."""
    return model.operation in ("broadcast", "reduce") and model.machine.nodes > 1


def test_times_neither_fall_nor_jump_beyond_what_tables_show(clusters):
    steep = steps = 0
    for model in clusters:
        seconds = np.array([model.seconds_from_common_start(nbytes) for nbytes in SIZES])
        growth = seconds[1:] / seconds[:-1]
        assert growth.min() > 1 - 1e-9, model.machine
        if not is_long_chain(model):
            assert growth.max() < 2.6, model.machine
        steep += (growth > STEEP).sum()
        steps += len(growth)
    assert steep <= max(most_steps() * steps, 1)


def test_cards_of_twice_the_rate_are_seldom_slower_and_by_less_than_a_choice_may_cost(clusters):
    slower = sizes = 0
    for model in clusters:
        machine = model.machine
        if machine.nodes == 1:
            continue
        faster = replace(machine, nic_rate=2 * machine.nic_rate)
        growth = took(faster, model.operation) / took(machine, model.operation)
        if not is_long_chain(model):
            assert growth.max() <= 1.5, machine
        slower += (growth > 1.05).sum()
        sizes += len(growth)
    assert slower <= max(0.01 * sizes, 1)


def test_more_nodes_raise_no_bus_bandwidth_beyond_what_more_channels_do(clusters):
    for model in clusters:
        machine = model.machine
        if machine.nodes == 1 or model.operation not in ("all_reduce", "all_gather"):
            continue
        inside = replace(machine, nodes=1, transport="none", nic_rate=0.0)
        more = [replace(machine, nodes=count) for count in (2, 4, 8, 16)]
        rates = [bus_rate(each, model.operation) for each in (inside, *more) if each.ranks > 1]
        growth = np.array(rates[1:]) / np.array(rates[:-1])
        assert growth[0] < CHANNELS[machine.intra], machine
        assert growth[1:].max() < 1.05, machine


@pytest.mark.parametrize("operation", ["all-reduce", "all-gather"])
def test_the_links_of_a_second_node_leave_no_more_bus_bandwidth_either(operation):
    """Whatever its links leave of the prediction, on every node of the catalogue."""
    for name in catalogue():
        rates = []
        for count in (1, 2, 4):
            try:
                model = NcclModel(
                    build_cluster(ClusterConfig(node=name, nodes=count)), operation=operation
                )
            except DpsimError:
                continue
            if model.machine.ranks > 1:
                sent = (1 + (operation == "all-reduce")) * (1 - 1 / model.machine.ranks) * HUGE
                rates.append(sent / model.seconds_from_common_start(HUGE))
        if len(rates) == 3:
            growth = np.array(rates[1:]) / np.array(rates[:-1])
            assert growth[0] < CHANNELS[model.machine.intra], name
            assert growth[1] < 1.05, name


def took(machine, operation):
    return predict(machine, operation, 4, SIZES).seconds


def bus_rate(machine, operation):
    """Bytes a second of a link at a huge size, as nccl-tests count them."""
    rounds = 2 if operation == "all_reduce" else 1
    sent = rounds * (machine.ranks - 1) / machine.ranks * HUGE
    return sent / predict(machine, operation, 4, HUGE).seconds[0]
