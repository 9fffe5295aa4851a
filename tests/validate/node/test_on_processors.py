"""Scenarios on this machine's processors by gloo: the way that GPUs take, but for the face."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from again import from_known, measured_again

from dpsim.base.errors import DpsimError
from validate.emulate import Case
from validate.node.methods import deviations, method_on
from validate.node.node_profile import node_profile
from validate.node.program import carry_out
from validate.node.run import bucket_seconds, steps_of
from validate.ranks.launch import launch, loopback
from validate.ranks.processes import joined

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
SCENARIO = str(HERE / "small.yaml")
FOUR = "cluster.nodes=4"
TRANSFORMER = (
    "workload.model={torch: 'validate.microbench.models:SmallTransformer', input: [64], "
    "dtype: int64}"
)
SHARDED = "strategy.aggregation={kind: sharded, stage: %d, unit_size: 100 kB%s}"
SERVERS = "strategy.aggregation={kind: parameter-server, servers: 1, colocated: false}"
DILOCO = "strategy.sync={kind: local-sgd, group: 2, every: 1, outer: {every: 2, overlap: 1}}"
IDEAL = "strategy.aggregation={kind: allreduce}"
SEQUENTIAL = "strategy.overlap.kind=sequential"

# By how many ranks carry them out: name to what is set, and how passes compute.
CASES = {
    2: {
        "ddp": ((), "real"),
        "accumulation": (("workload.gradient_accumulation=3",), "real"),
        "checkpointing": ((TRANSFORMER, "workload.checkpoint=full"), "real"),
        "bf16": (("cluster.gpu=h100-sxm", "workload.precision=bf16"), "real"),
        "channels-last": (
            ("workload.memory_format=channels_last", "workload.optimizer_kernels=fused"),
            "real",
        ),
        "one-vector-channels-last": (
            (SEQUENTIAL, "workload.memory_format=channels_last"),
            "real",
        ),
        "captured": (("workload.execution=cuda-graph",), "real"),  # as eager, on a processor
        "adam-zero-1": (("workload.optimizer=adam", SHARDED % (1, "")), "real"),
        "fsdp": ((TRANSFORMER, SHARDED % (3, "")), "real"),
        "schedule": (
            (SEQUENTIAL, "strategy.aggregation={kind: allreduce, algorithm: tree}"),
            "real",
        ),
        "averaged": ((SEQUENTIAL, "strategy.sync={kind: local-sgd, every: 2}"), "real"),
        "hook": ((IDEAL, "strategy.compression={kind: top-k, density: 0.1}"), "real"),
        "learners": ((SEQUENTIAL, "strategy.sync.kind=sma", "workload.learners_per_gpu=2"), "real"),
        "timed": ((), "timed"),
        "slow": (("disturbance.slow=[{workers: [1], factor: 20}]",), "real"),
        "input": (
            ("workload.input={kind: storage, cpu_seconds_per_sample: 50 ms, loader_workers: 1}",),
            "real",
        ),
    },
    4: {
        "servers": (("cluster.nodes=3", SEQUENTIAL, SERVERS), "real"),
        "gossip": ((FOUR, "strategy.aggregation.kind=gossip"), "real"),
        "fsdp-groups": ((FOUR, TRANSFORMER, SHARDED % (2, ", shard_group: 2")), "real"),
        "outer": ((FOUR, SEQUENTIAL, IDEAL, DILOCO), "real"),
    },
}
ALL = {name: case for some in CASES.values() for name, case in some.items()}

# These are like others here, or tried on stand-ins for GPUs as well.
WIDE = ("adam-zero-1", "bf16", "fsdp-groups")


def measured(cases, ranks, folder):
    """By name, what each of so many ranks measured."""
    program = str(HERE / "node_ranks.py")
    launch(
        [sys.executable, program, str(folder), SCENARIO, json.dumps(cases)],
        loopback(ranks),
        timeout_s=240,
        connect_timeout_s=120,
        preload=["validate.node", "torch._dynamo"],
    )
    found = [json.loads((folder / f"rank-{rank}").read_text()) for rank in range(ranks)]
    return {name: [own[name] for own in found] for name in cases}


@pytest.fixture(scope="module")
def rows(wide, tmp_path_factory):
    """By name, what each rank measured."""
    found = {}
    for ranks, cases in CASES.items():
        some = {name: case for name, case in cases.items() if wide or name not in WIDE}
        found |= measured(some, ranks, tmp_path_factory.mktemp("node"))
    return found


@pytest.fixture
def checked(rows, tmp_path):
    """Checks what two ranks measured of some cases: anew where other work held them up."""

    def call(check, *names):
        cases = {name: CASES[2][name] for name in names}
        known = {name: rows[name] for name in names}
        measured_again(check, from_known(known, lambda: measured(cases, 2, tmp_path)))

    return call


def steps(name, rows):
    sets, _ = ALL[name]
    return steps_of(Case(SCENARIO, sets).job(), rows[name])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.wide if name in WIDE else ()) for name in ALL],
)
def test_every_part_of_a_step_is_measured_and_they_make_up_the_step(name, rows):
    found = steps(name, rows)
    workers = found.compute.shape[1]
    assert found.compute.shape == (3, 3 if name == "servers" else len(rows[name]))
    wanted = np.array([row["step_s"] for row in rows[name][:workers]]).T
    np.testing.assert_allclose(found.step, wanted)
    assert (found.compute > 0).all()
    assert min(map(np.min, (found.exposed_comm, found.straggler_wait, found.encode))) >= 0
    assert {row["device"] for row in rows[name]} == {"cpu"}


def single(row):
    """Seconds of a step by oneself that nothing held up."""
    return float(np.median(row["alone_s"]))


def test_memory_is_what_was_held_beyond_the_start(rows):
    # In the first scenario of a process: later ones find the memory of earlier ones.
    assert min(row["peak_bytes"] for row in rows["ddp"]) > 0.3e6 * 4 * 2


def test_three_passes_take_longer_than_one(checked):
    same = ("ddp", "schedule", "averaged", "hook")

    def check(rows):
        one = min(single(row) for name in same for row in rows[name])
        assert min(single(row) for row in rows["accumulation"]) > 1.5 * one

    checked(check, *same, "accumulation")


def test_buckets_that_go_beside_the_backward_pass_are_timed(rows):
    seconds = bucket_seconds(rows["ddp"], 1)
    assert [*seconds] == ["bucket0", "bucket1", "bucket2"]  # 1.3 MB: the first has 64 KiB
    assert min(seconds.values()) > 0


def test_two_learners_on_a_device_take_longer_than_one(checked):
    def check(rows):
        one = min(single(row) for row in rows["averaged"])
        assert min(single(row) for row in rows["learners"]) > 1.3 * one

    checked(check, "averaged", "learners")


def test_learners_without_a_method_are_refused():
    case = Case(SCENARIO, ("workload.learners_per_gpu=2",))
    with pytest.raises(DpsimError, match="learners_per_gpu: must be 1 on real ranks but where"):
        method_on(case.scenario())


REASONS = {
    "workload.execution=cuda-graph": "a processor has no CUDA graphs",
    "workload.optimizer_kernels=sharded": "each worker updates all weights by one kernel",
    "workload.sync_batch_norm=2": "torch shares statistics on GPUs only; each rank has its own",
    "workload={model: resnet18, batch_per_gpu: 1, learners_per_gpu: 2}": "(MPS) changes nothing",
    "workload.software=tuned": "",
}


@pytest.mark.parametrize("word", REASONS)
def test_a_word_that_is_carried_out_otherwise_is_a_note(word):
    sync = ("strategy={sync: {kind: sma}}",) if "learners" in word else ()
    found = deviations(Case(SCENARIO, (word, *sync)).scenario(), on_gpu=False)
    assert [REASONS[word] in each for each in found] == [True] * bool(REASONS[word])


def test_a_codec_that_numpy_encodes_is_a_note(monkeypatch):
    compressed = Case(SCENARIO, ("strategy.compression.kind=int8",)).scenario()
    assert deviations(compressed, on_gpu=False) == []
    monkeypatch.setattr("validate.microbench.torch_codecs._CODECS", {})
    (note,) = deviations(compressed, on_gpu=False)
    assert "strategy.compression int8: it is encoded by numpy in the host's memory" in note


def test_encoding_is_separated_from_the_rest(rows):
    assert steps("hook", rows).encode[1:].min() > 0
    assert steps("ddp", rows).encode.max() == 0


def test_a_slow_worker_computes_longer_and_the_others_wait_for_it(checked):
    def check(rows):
        found = steps("slow", rows)
        pauses = np.array(rows["slow"][1]["pauses_s"])
        assert (pauses > 0).all()
        assert (found.compute[:, 1] >= pauses).all()
        assert found.straggler_wait[1:, 0].mean() > 0.5 * pauses.mean()
        assert found.straggler_wait[:, 1].max() < 0.1 * pauses.mean()

    checked(check, "slow")


def test_a_slow_loader_is_waited_for(checked):
    # One loader that takes 4 x 50 ms a batch, from the first step on. How far it is ahead in a later
    # step depends on how long the machine held up those before, and not when the last batch comes.
    def check(rows):
        found = steps("input", rows)
        assert found.input[0].min() > 0.19
        assert found.step.sum(axis=0).min() > 0.59

    checked(check, "input")


def test_passes_by_the_clock_take_their_predicted_time(checked):
    sets, _ = ALL["timed"]
    predicted = Case(SCENARIO, sets).job().positions[-2, 0]

    def check(rows):
        assert single(rows["timed"][0]) > predicted
        assert single(rows["timed"][0]) < 3 * predicted + 0.1

    checked(check, "timed")


def test_models_that_are_averaged_now_and_then_send_less(rows):
    sent = [np.array(row["parts_s"]["communication"]) > 0 for row in rows["averaged"]]
    assert all(own.tolist() == [False, True, True] for own in sent)


def check_both_sides(content):
    assert (content["device"], content["backend"]) == ("cpu", "gloo")
    predicted, measured = content["predicted"], content["measured"]
    assert sum(measured["parts_s"].values()) == pytest.approx(measured["step_time_s"]["mean"])
    ratio = predicted["step_time_s"]["mean"] / measured["step_time_s"]["mean"]
    assert content["error"]["step_time"] == pytest.approx(ratio - 1)
    assert content["memory"]["measured_bytes"] > 0.3e6 * 4 * 2  # weights and gradients at least
    assert content["memory"]["predicted_bytes"] == predicted["memory"]["total_bytes"]
    assert "stand for testbed-cpu" in content["notes"][0]


def test_the_command_starts_its_ranks_and_answers_both_sides(dpsim):
    code, out, err = dpsim("validate", "run", SCENARIO, "--device", "cpu", "--json")
    assert code == 0, err
    check_both_sides(json.loads(out))


def test_under_torchrun_its_ranks_do_it_and_rank_0_answers(under_torchrun):
    first, second = under_torchrun["run"]
    check_both_sides(json.loads(first))
    assert second == ""


# To write and compile C++ takes half a minute of a processor; torch's own debugging backends take
# the same graph without.
BACKENDS = ("eager", pytest.param("inductor", marks=pytest.mark.long))


@pytest.fixture
def compiled_by(monkeypatch):
    """Lets torch.compile have another backend."""

    def use(backend):
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
        return Case(SCENARIO, ("cluster.nodes=1", "workload.execution=compile")).job()

    return use


# What torch says of its own modules when they are first loaded.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_is_one_graph_of_its_own(compiled_by, monkeypatch, backend):
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("there is no g++ here")
    resets = []
    usual = torch.compiler.reset
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(usual()))
    with joined("gloo", "cpu") as world:
        counters = torch._dynamo.utils.counters
        before = counters["stats"]["unique_graphs"]
        row = carry_out(compiled_by(backend), world, "real")
    assert len(resets) == 1
    assert counters["stats"]["unique_graphs"] > before
    assert min(row["step_s"]) > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_compiled_here_is_refused_with_the_reason(compiled_by):
    def broken(graph, inputs):
        raise RuntimeError("there is no compiler")

    refused = r"must be eager here, where torch\.compile does not work: RuntimeError: there is no compiler"
    with joined("gloo", "cpu") as world, pytest.raises(DpsimError, match=refused):
        carry_out(compiled_by(broken), world, "real")


def test_passes_by_the_clock_are_never_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", None)
    job = Case(SCENARIO, ("cluster.nodes=1", "workload.execution=compile")).job()
    with joined("gloo", "cpu") as world:
        assert len(carry_out(job, world, "timed")["step_s"]) == 3


def test_without_time_nothing_is_measured_and_all_is_left_over(tmp_path, capsys):
    with pytest.raises(DpsimError, match="must have measurements, but there are none"):
        node_profile(tmp_path / "rows.jsonl", device="cpu", ranks=1, minutes=0.1)
    output = capsys.readouterr().err
    assert "left over, about" in output
    assert "small-cnn in fp32 by 1 ranks; small-transformer in fp32 by 1 ranks" in output


def test_rows_of_another_machine_are_refused(tmp_path):
    theirs = {"world": {"machine": {"cpu": "another", "gpus": []}}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(theirs) + "\n")
    with pytest.raises(DpsimError, match=r"must be of this machine, where cpu is .* got another"):
        node_profile(tmp_path / "rows.jsonl", device="cpu", ranks=1)
