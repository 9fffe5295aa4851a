"""Chakra traces, read back by Google's protobuf with the schema's fields, and replayed."""

import json
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32
from google.protobuf.unknown_fields import UnknownFieldSet

from dpsim import load_scenario
from dpsim.base.errors import DpsimError
from dpsim.engine import run_scenario
from dpsim.report.exports.chakra import write_chakra

SCENARIOS = Path(__file__).parents[2] / "scenarios"
COMP, COLLECTIVE = 4, 7  # NodeType
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = 0, 2, 7  # CollectiveCommType
# Name, number, type and whether repeated, as in mlcommons/chakra, schema/protobuf/et_def.proto.
MESSAGES = {
    "AttributeProto": [
        ("name", 1, "string", False),
        ("int64_val", 9, "int64", False),
        ("bool_val", 27, "bool", False),
        ("string_val", 29, "string", False),
    ],
    "GlobalMetadata": [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)],
    "Node": [
        ("id", 1, "uint64", False),
        ("name", 2, "string", False),
        ("type", 3, "uint64", False),
        ("ctrl_deps", 4, "uint64", True),
        ("data_deps", 5, "uint64", True),
        ("start_time_micros", 6, "uint64", False),
        ("duration_micros", 7, "uint64", False),
        ("attr", 10, "AttributeProto", True),
    ],
}


def schema():
    file = descriptor_pb2.FileDescriptorProto(
        name="et.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".ChakraProtoMsg.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}") for name in MESSAGES)
    return dict(zip(MESSAGES, map(message_factory.GetMessageClass, found), strict=True))


CLASSES = schema()


def read(path):
    """The metadata and the nodes of a file: messages one after the other, each after its length."""
    content, at, messages = path.read_bytes(), 0, []
    while at < len(content):
        size, at = _DecodeVarint32(content, at)
        kind = CLASSES["Node" if messages else "GlobalMetadata"]
        message = kind()
        message.ParseFromString(content[at : at + size])
        assert not UnknownFieldSet(message)
        messages.append(message)
        at += size
    return messages[0], messages[1:]


def attributes(node):
    found = {}
    for each in node.attr:
        values = [value for field, value in each.ListFields() if field.name != "name"]
        # A library leaves out what is as the schema has it; `is_cpu_op` is false.
        found[each.name] = values[0] if values else 0
    return found


FEW = ("run.steps=3", "cluster.nodes=2")


def traced(tmp_path, name, *overrides):
    run = run_scenario(load_scenario(SCENARIOS / f"{name}.yaml", [*FEW, *overrides]))
    write_chakra(run, tmp_path)
    return run


def replayed(nodes):
    """Seconds until all nodes are done that start when all that they wait for is."""
    ends = {}
    for node in nodes:
        start = max((ends[each] for each in [*node.data_deps, *node.ctrl_deps]), default=0)
        ends[node.id] = start + node.duration_micros
    return max(ends.values()) / 1e6


STEADY = ("disturbance.jitter.sigma=0",)
SMALL = "workload.model=gpt2-small"


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("quickstart", STEADY),
        ("quickstart", (*STEADY, "workload.gradient_accumulation=2")),
        ("sharded", (SMALL,)),
        ("sharded", (SMALL, "strategy.aggregation.shard_group=node", "run.engine=vector")),
        ("powersgd", STEADY),
        ("mg-wfbp", STEADY),
    ],
)
def test_a_replay_takes_as_long_as_the_step(tmp_path, name, overrides):
    """Where workers are alike: what waits for what is all there, and so are all durations."""
    run = traced(tmp_path, name, *overrides)
    _, nodes = read(tmp_path / "step.0.et")
    assert replayed(nodes) == pytest.approx(run.steps.step[0, 0], rel=0.001)


def test_a_file_for_each_rank_and_one_for_the_groups(tmp_path):
    run = traced(tmp_path, "quickstart")
    workers = run.job.workers
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"comm_groups.json", *(f"step.{rank}.et" for rank in range(workers))}
    assert json.loads((tmp_path / "comm_groups.json").read_text()) == {"1": [*range(workers)]}
    metadata, nodes = read(tmp_path / "step.5.et")
    assert metadata.version == "0.0.4"
    assert attributes(metadata) == {"scenario": "quickstart", "step": "0"}
    assert sorted(node.id for node in nodes) == [*range(len(nodes))]


def test_buckets_are_all_reduces_that_wait_for_their_last_layer(tmp_path):
    run = traced(tmp_path, "quickstart")
    _, nodes = read(tmp_path / "step.0.et")
    by_id = {node.id: node for node in nodes}
    sent = [node for node in nodes if node.type == COLLECTIVE]
    calls = run.job.calls(run.job.counted.start)
    assert [attributes(node)["comm_size"] for node in sent] == [call.stages[0][1] for call in calls]
    layers = [layer.name for layer in run.job.model.layers]
    for node, call, before in zip(sent, calls, [None, *sent], strict=False):
        told = attributes(node)
        assert (told["comm_type"], told["pg_name"], told["is_cpu_op"]) == (ALL_REDUCE, "1", False)
        (ready,) = node.data_deps
        assert by_id[ready].name == f"backward {layers[2 * len(layers) - call.ready]}"
        assert list(node.ctrl_deps) == ([] if before is None else [before.id])
    # The optimiser's step waits for them, and for the last layer's pass.
    (update,) = [node for node in nodes if node.name == "optimizer"]
    assert set(update.data_deps) >= {node.id for node in sent}


def test_computing_adds_up_to_the_worker_s_own_step(tmp_path):
    """Jitter stretches each worker's passes in its own way."""
    run = traced(tmp_path, "quickstart")
    for worker in (0, 13):
        _, nodes = read(tmp_path / f"step.{worker}.et")
        seconds = sum(node.duration_micros for node in nodes if node.type == COMP) / 1e6
        assert seconds == pytest.approx(run.steps.compute[0, worker], abs=2e-6)
    assert run.steps.compute[0, 0] != pytest.approx(run.steps.compute[0, 13], rel=1e-4)


def test_sharding_gathers_weights_and_scatters_gradients(tmp_path):
    """A trace's size is what each rank brings: of an all-gather its own part."""
    run = traced(tmp_path, "sharded", SMALL)
    _, nodes = read(tmp_path / "step.0.et")
    gathers = [node for node in nodes if attributes(node).get("comm_type") == ALL_GATHER]
    scatters = [node for node in nodes if attributes(node).get("comm_type") == REDUCE_SCATTER]
    assert gathers
    assert scatters
    stages = [stage for call in run.job.calls(run.job.counted.start) for stage in call.stages]
    first = next(nbytes for name, nbytes in stages if name == "all-gather")
    assert attributes(gathers[0])["comm_size"] == -(-first // run.job.workers)


def test_the_loss_is_averaged_by_an_all_reduce(tmp_path):
    traced(tmp_path, "average-loss")
    _, nodes = read(tmp_path / "step.0.et")
    (loss,) = [node for node in nodes if node.name.startswith("loss")]
    told = attributes(loss)
    assert (told["comm_type"], told["comm_size"]) == (ALL_REDUCE, 4)


def test_groups_meet_apart(tmp_path):
    brief = "strategy.sync.outer={every: 2, fragments: 1, overlap: 0}"
    run = traced(tmp_path, "diloco", "cluster.nodes=4", brief, "strategy.overlap.kind=sequential")
    groups = json.loads((tmp_path / "comm_groups.json").read_text())
    for rank in (0, run.job.workers - 1):
        _, nodes = read(tmp_path / f"step.{rank}.et")
        for node in nodes:
            if node.type == COLLECTIVE:
                assert rank in groups[attributes(node)["pg_name"]]
    assert {len(ranks) for ranks in groups.values()} >= {2, run.job.workers // 2}


@pytest.mark.parametrize("name", ["parameter-server", "ad-psgd", "host"])
def test_who_does_not_meet_in_collectives_has_no_trace(tmp_path, name):
    with pytest.raises(DpsimError, match=r"--chakra: workers must meet in collectives"):
        traced(tmp_path / "traces", name)
    assert not (tmp_path / "traces").exists()


def test_too_many_nodes_are_refused_before_a_file_is_written(tmp_path):
    with pytest.raises(DpsimError, match=r"at most 2,000,000 nodes, but have"):
        traced(tmp_path / "traces", "quickstart", "cluster.nodes=1024")
    assert not (tmp_path / "traces").exists()


def test_the_command(dpsim, tmp_path):
    folder = tmp_path / "new" / "traces"
    file = SCENARIOS / "quickstart.yaml"
    code, out, err = dpsim("run", file, "--set", "run.steps=3", "--chakra", folder)
    assert code == 0
    assert "quickstart: a step takes" in out
    assert f"wrote step 0 of 32 ranks to {folder}" in err
    assert len(list(folder.iterdir())) == 33
    (tmp_path / "file").write_text("")
    code, _, err = dpsim(
        "run", file, "--set", "run.steps=3", "--chakra", tmp_path / "file" / "traces"
    )
    assert (code, err.count("\n")) == (2, 1)
