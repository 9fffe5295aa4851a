"""Schedules for MSCCL, run by an interpreter of its own: every rank ends with what was promised."""

import json
import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from pathlib import Path

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import ALGORITHMS, OPERATIONS, algorithm
from dpsim.report.exports.msccl import msccl, msccl_text

SAID = ("all-reduce", "reduce-scatter", "all-gather")
MEMBERS = [each for each in ALGORITHMS if each.operation in SAID]


def xml_of(schedule):
    return ET.fromstring(msccl_text(schedule, Path("a.xml")))


def run(algo, inputs, seed):
    """What GPUs hold after the steps of ``algo``: blocks take turns in an order that is drawn.

    A block goes on only where what it waits for is done and what it receives has come.
    """
    buffers = inputs.copy()
    wires = defaultdict(deque)
    blocks = []
    for gpu in algo.iter("gpu"):
        for tb in gpu.iter("tb"):
            steps = [dict(step.attrib) for step in tb.iter("step")]
            assert [int(step["s"]) for step in steps] == list(range(len(steps)))
            rank, chan = int(gpu.get("id")), tb.get("chan")
            peers = int(tb.get("send")), int(tb.get("recv"))
            blocks.append((rank, int(tb.get("id")), chan, peers, steps))
    by_name = {(rank, number): steps for rank, number, _, _, steps in blocks}
    done = dict.fromkeys(by_name, 0)

    def is_ready(rank, number, chan, peers, steps):
        if done[rank, number] == len(steps):
            return False
        step = steps[done[rank, number]]
        other = rank, int(step["depid"])
        if other[1] >= 0:
            assert by_name[other][int(step["deps"])]["hasdep"] == "1"
            if done[other] <= int(step["deps"]):
                return False
        return not step["type"].startswith("r") or bool(wires[peers[1], rank, chan])

    def take(rank, number, chan, peers, steps):
        step = steps[done[rank, number]]
        kind, cnt = step["type"], int(step["cnt"])
        source = slice(int(step["srcoff"]), int(step["srcoff"]) + cnt)
        target = slice(int(step["dstoff"]), int(step["dstoff"]) + cnt)
        if kind.startswith("r"):
            came = wires[peers[1], rank, chan].popleft()
            assert came.shape == buffers[rank, target].shape
            buffers[rank, target] = came + (buffers[rank, source] if "rr" in kind else 0)
        if kind.endswith("s"):
            wires[rank, peers[0], chan].append(buffers[rank, source].copy())
        done[rank, number] += 1

    order = np.random.default_rng(seed)
    while ready := [block for block in blocks if is_ready(*block)]:
        take(*ready[order.integers(len(ready))])
    assert all(done[name] == len(steps) for name, steps in by_name.items()), "blocks wait for ever"
    assert not any(wires.values())
    return buffers


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("member", MEMBERS, ids=lambda each: f"{each.operation}-{each.name}")
def test_every_rank_ends_with_what_the_operation_promises(member, ranks):
    schedule = member.schedule(ranks)
    chunks = schedule.chunks
    inputs = np.random.default_rng(ranks).integers(-1000, 1000, (ranks, chunks)).astype(float)
    expected = OPERATIONS[member.operation].expected(inputs, schedule.chunking(chunks))
    algo = xml_of(schedule)
    for seed in range(3):
        held = run(algo, inputs, seed)
        matters = ~np.isnan(expected)
        np.testing.assert_array_equal(held[matters], expected[matters])


def test_a_ring_sends_on_what_it_receives_in_one_block():
    """Of 4 ranks: send, twice add and send on, add and send the sum, twice copy on, receive."""
    algo = xml_of(algorithm("ring").schedule(4))
    for gpu in algo.iter("gpu"):
        (tb,) = gpu.iter("tb")
        rank = int(gpu.get("id"))
        assert (int(tb.get("send")), int(tb.get("recv"))) == ((rank + 1) % 4, (rank - 1) % 4)
        types = [step.get("type") for step in tb.iter("step")]
        assert types == ["s", "rrcs", "rrcs", "rrcs", "rcs", "rcs", "r"]
        assert {step.get("depid") for step in tb.iter("step")} == {"-1"}


def test_the_head_says_what_it_is_for():
    head = xml_of(algorithm("ring", "all-gather").schedule(4)).attrib
    assert head == {
        "name": "dpsim-all-gather-ring-4",
        "proto": "Simple",
        "nchannels": "1",
        "nchunksperloop": "4",
        "ngpus": "4",
        "coll": "allgather",
        "inplace": "1",
        "outofplace": "0",
        "minBytes": "0",
        "maxBytes": str(2**63 - 1),
    }


@pytest.mark.parametrize("member", MEMBERS, ids=lambda each: f"{each.operation}-{each.name}")
def test_several_waits_are_a_chain_that_ends_in_the_step(member):
    """As the parser has it: after a step that does nothing comes one that waits, too."""
    for tb in xml_of(member.schedule(8)).iter("tb"):
        steps = [step.attrib for step in tb.iter("step")]
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if step["type"] == "nop":
                assert int(step["depid"]) >= 0
                assert following is not None
                assert int(following["depid"]) >= 0
            assert int(step["cnt"]) < 72
            assert step["depid"] != tb.get("id")


def test_long_transfers_are_cut():
    """Halving and doubling of 256 ranks moves 128 chunks at once."""
    schedule = algorithm("halving-doubling").schedule(256)
    counts = [step["cnt"] for tb in msccl(schedule)["gpus"][0]["tbs"] for step in tb["steps"]]
    assert max(counts) == 64


def test_json_says_the_same():
    schedule = algorithm("tree").schedule(5)
    told = json.loads(msccl_text(schedule, Path("a.json")))
    algo = xml_of(schedule)
    for gpu, other in zip(told["gpus"], algo.iter("gpu"), strict=True):
        for tb, block in zip(gpu["tbs"], other.iter("tb"), strict=True):
            steps = [{key: str(value) for key, value in step.items()} for step in tb["steps"]]
            assert steps == [step.attrib for step in block.iter("step")]


@pytest.mark.parametrize(
    ("name", "operation", "ranks", "message"),
    [
        ("ring", "all-reduce", 200, "at most 256 steps in a thread block, but needs 39"),
        ("ring", "all-reduce", 257, "ranks must be from 2 to 256, but got 257"),
        ("ring", "all-reduce", 1, "ranks must be from 2 to 256, but got 1"),
        ("tree", "broadcast", 4, "must be one of all-reduce, .*but got 'broadcast'"),
    ],
)
def test_what_it_cannot_say_is_an_error(name, operation, ranks, message):
    with pytest.raises(DpsimError, match=message):
        msccl(algorithm(name, operation).schedule(ranks))


def test_the_command_writes_it(dpsim, tmp_path):
    path = tmp_path / "ring.xml"
    asked = ("collective", "--ranks", 4, "--algorithm", "ring", "--msccl", path)
    assert dpsim(*asked) == (0, "", f"wrote {path}\n")
    assert path.read_text() == msccl_text(algorithm("ring").schedule(4), path)


def test_the_command_takes_a_cluster_s_nodes(dpsim, tmp_path):
    path = tmp_path / "two-levels.json"
    asked = ("--cluster", "dgx-a100", "--nodes", 2, "--algorithm", "hierarchical")
    code, _, _ = dpsim("collective", *asked, "--msccl", path)
    assert code == 0
    assert json.loads(path.read_text())["ngpus"] == 16
    of_nodes = algorithm("hierarchical").schedule(16, 8)
    assert path.read_text() == msccl_text(of_nodes, path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ranks", 4, "--msccl", "a.txt"), "--msccl: must end in .xml or .json, but got 'a.txt'"),
        (("--msccl", "a.xml"), "--msccl: must have --ranks or --cluster, but got neither"),
        (("--ranks", 4, "--algorithm", "ring,tree", "--msccl", "a.xml"), "--algorithm: must name"),
    ],
)
def test_a_wrong_call_is_one_line(dpsim, options, message):
    code, out, err = dpsim("collective", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"dpsim: {message}")
