"""Everything that asks for CUDA, against a stand-in: what it asks, and what it makes of answers."""

import importlib
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
import torch.distributed as dist
from fake_cuda import CYCLES_PER_SECOND, GIB, small_products, stand_in
from torch.utils._python_dispatch import TorchDispatchMode

from dpsim.base.errors import DpsimError
from validate.backends.matrix import why_not
from validate.emulate import Case
from validate.microbench import device_rates
from validate.microbench.device_rates import COPIES, PRODUCTS
from validate.microbench.layers import LAYERS
from validate.microbench.learners import LEARNERS
from validate.microbench.machine import gpu_state, provenance
from validate.microbench.point_to_point import BURST, _burst
from validate.microbench.precision import FORMATS
from validate.microbench.settings import Settings
from validate.microbench.steps import SPREAD
from validate.node import Here, as_here, check, here, on_node
from validate.node.measure import items_of
from validate.node.node_profile import scenario_here
from validate.node.program import carry_out
from validate.node.run import _busy_notes, _by_another_library, _sharing_notes
from validate.ranks.device import CudaFace
from validate.ranks.processes import Place, World, agree_on_backend, choose, first_line, joined
from validate.training import Training, method_named, train

pytestmark = pytest.mark.torch

SCENARIO = str(Path(__file__).with_name("small.yaml"))


@pytest.fixture
def cuda(monkeypatch):
    return stand_in(monkeypatch)


@pytest.fixture
def world(cuda):
    with joined("gloo", "cuda") as found:
        cuda.calls.clear()
        yield found


def test_the_face_counts_by_events_and_spins_by_cycles(cuda):
    cuda.host_clock = lambda: 0.0  # only spinning takes time
    face = CudaFace(0)
    face.spin(0.0)
    assert cuda.calls == []
    begin = face.mark()
    face.spin(0.02)
    *_, (_, cycles) = sleeps(cuda)
    assert cycles == pytest.approx(0.02 * CYCLES_PER_SECOND)
    assert cuda.calls[-2] == ("device", 0)
    begin = face.mark()
    face.spin(0.03)
    assert face.seconds(begin, face.mark()) == pytest.approx(0.03)
    face.reset_peak()
    assert "empty_cache" in cuda.calls
    # 3 GiB reserved at most, and 3 of 80 in use by the driver's account, of which 2 are reserved.
    assert face.peak_bytes() == 4 * GIB
    assert face.capacity == 80 * GIB


def test_the_end_of_computing_waits_only_for_the_compute_stream(cuda):
    CudaFace(0).finish()
    assert cuda.calls == ["stream.synchronize"]


def sleeps(cuda):
    return [requested for requested in cuda.calls if requested[0] == "sleep"]


def test_a_gpu_that_is_slow_at_first_does_not_count_its_first_cycles(cuda):
    cuda.host_clock = lambda: 0.0
    usual = cuda._sleep

    def slow_at_first(cycles):
        # Its clock has risen after some trials, as that of a GPU that was idle.
        usual(cycles if len(sleeps(cuda)) > 10 else 4 * cycles)

    torch.cuda._sleep = slow_at_first
    CudaFace(0).spin(0.02)
    assert sleeps(cuda)[-1][1] == pytest.approx(0.02 * CYCLES_PER_SECOND)


class Answers:
    """A store in which the other ranks have already written."""

    def __init__(self, identities):
        self._values = {f"gpu/{rank}": each.encode() for rank, each in enumerate(identities)}

    def set(self, key, value):
        assert self._values[key].decode() == value

    def get(self, key):
        return self._values[key]


def world_of(identities, rank):
    return World(Place(rank, len(identities)), "nccl", CudaFace(0), Answers(identities), 1.0)


def test_ranks_that_each_see_one_gpu_of_their_own_meet_by_nccl(monkeypatch):
    """As Slurm starts them: every rank sees one GPU, and calls it number 0."""
    gpus = [f"GPU-{letter}" for letter in "abcdefgh"]
    for rank in range(8):
        stand_in(monkeypatch, uuids=(gpus[rank],))
        for requested in ("auto", "nccl"):
            assert agree_on_backend(world_of(gpus, rank), requested).backend == "nccl"


def test_ranks_that_share_a_gpu_say_so(cuda, capsys):
    shared = world_of(["GPU-a", "GPU-b", "GPU-a"], 0)
    assert agree_on_backend(shared, "auto").backend == "gloo"
    assert "ranks 0 and 2 share GPU GPU-a: they meet by gloo, not nccl" in capsys.readouterr().err
    with pytest.raises(DpsimError, match="a GPU for each rank, but ranks 0 and 2 share GPU GPU-a"):
        agree_on_backend(shared, "nccl")


def test_local_ranks_take_the_gpus_in_turn(monkeypatch):
    stand_in(monkeypatch, uuids=("GPU-a", "GPU-b"))
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    faces = [choose(Place(rank, 3, rank, 3))[1] for rank in range(3)]
    assert [face.index for face in faces] == [0, 1, 0]
    assert choose(Place())[0] == "nccl"


def test_a_process_computes_on_its_gpu_before_it_joins(cuda):
    with joined("gloo", "cuda"):
        assert cuda.calls[0] == ("set_device", 0)


def test_backends_are_tried_on_the_ranks_own_gpu(cuda, monkeypatch):
    tried = []
    module = importlib.import_module("validate.backends.matrix")
    monkeypatch.setattr(module, "pairs", lambda: [("gloo", "cuda")])
    monkeypatch.setattr("validate.ranks.processes.meet", lambda place, patience: None)
    monkeypatch.setattr("validate.ranks.processes.place_from_environment", lambda: Place(1, 2, 1))
    monkeypatch.setattr(
        "validate.backends.cells.try_operations",
        lambda world, names: tried.append(world.face.kind) or [],
    )
    module.here()
    assert (cuda.calls, tried) == ([("set_device", 0)], ["cuda"])


def test_copies_are_timed_separately_and_say_how_many_copied(world, monkeypatch):
    monkeypatch.setattr(torch, "zeros", without_pinning(torch.zeros))
    settings = Settings(what=("copies",), begin=1024, end=1024, iterations=2, warmup=0)
    rows = list(COPIES.rows(world, settings))
    assert [row["at_once"] for row in rows] == [1] * 4


def without_pinning(function):
    def zeros(*args, pin_memory=False, **kwargs):
        return function(*args, **kwargs)

    return zeros


class Operators(TorchDispatchMode):
    """The calls of torch, and the formats of the results of products."""

    def __init__(self):
        super().__init__()
        self.names, self.formats = [], set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.names.append(function.overloadpacket.__name__)
        if self.names[-1] in ("mm", "convolution"):
            self.formats.add(out.dtype)
        return out


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_products_in_half_precision_are_timed_without_casts(world, monkeypatch, precision):
    small_products(monkeypatch)
    monkeypatch.setattr(device_rates, "precisions", lambda world: [precision])
    settings = Settings(what=("products",), iterations=3, warmup=0)
    with Operators() as requested:
        rows = list(PRODUCTS.rows(world, settings))
    assert {row["precision"] for row in rows if row["flop"]} == {precision}
    assert requested.formats == {FORMATS[precision]}
    # Seven operands: a square, images and weights, three heads, made before; none in a repetition.
    assert requested.names.count("_to_copy") == 6
    assert requested.names.count("mm") == settings.iterations


def test_learners_are_streams_and_layers_are_cut_by_events(world, cuda):
    settings = Settings(what=("learners",), batch_sizes=(2,), learners=(3,), iterations=1, warmup=0)
    (row,) = LEARNERS.rows(world, settings)
    assert (row["by"], cuda.calls.count("stream")) == ("streams", 3)
    bf16 = settings.model_copy(update={"precision": "bf16"})
    (row,) = LAYERS.rows(world, bf16)
    apart = sum(row[f"{part}_time_s"] for part in ("forward_pass", "backward_pass", "optimizer"))
    assert apart <= row["step_time_s"] * 1.001
    assert row["precision"] == "bf16"


def test_learners_and_the_average_wait_for_what_the_compute_stream_has_made(world, cuda):
    """Torch's streams wait for nothing by themselves."""
    reported = Training(steps=2, batch=4)
    train(method_named("sma", learners=2), world, reported)
    order = [requested for requested in cuda.calls if "waits for" in requested]
    average, *learners = [name for name, _, _ in order[:3]]
    begins = [(name, "waits for", "main") for name in (average, *learners)]
    ends = [("main", "waits for", name) for name in (*learners, average)]
    assert order[:12] == (begins + ends) * 2


def test_a_batch_that_does_not_fit_ends_a_benchmark_and_no_other(world, monkeypatch):
    def most(module, batch, update):
        if len(batch) > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("validate.microbench.steps.step_of", most)
    monkeypatch.setattr("validate.microbench.layers.step_of", most)
    settings = Settings(what=("layers",), batch_sizes=(2, 4, 8, 16), iterations=1, warmup=0)
    output = "batch sizes 8, 16: the device has not the memory for 8"
    for benchmark in (LAYERS, SPREAD):
        *rows, last = benchmark.rows(world, settings)
        assert [row["batch_size"] for row in rows] == [2, 4]
        assert last["not_run"] == output


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Voodoo 3"])
def test_what_is_no_whole_gpu_of_the_catalogue_is_no_gpu_of_its_kind(monkeypatch, name):
    stand_in(monkeypatch, name=name)
    wanted = Case(SCENARIO, ("cluster={nodes: 1, node: dgx-h100, gpus_per_node: 1}",))
    with pytest.raises(DpsimError, match=f"its GPUs are h100-sxm, and here are {name}"):
        check(wanted.scenario(), here("cuda"), None)
    with pytest.raises(DpsimError, match=f"the catalogue must know .* but has no 1 x {name}"):
        as_here(wanted, here("cuda"), None)


def test_a_gpu_without_a_node_of_its_own_is_in_a_box(monkeypatch, capsys):
    stand_in(monkeypatch, uuids=("GPU-a", "GPU-b"), name="NVIDIA GeForce RTX 3080")
    found = as_here(Case(SCENARIO), here("cuda"), None).scenario()
    assert (found.cluster.accelerator.name, found.cluster.ranks) == ("rtx-3080", 2)
    assert "the catalogue has no node of 2 rtx-3080: links are taken" in capsys.readouterr().err


def test_gpus_of_a_node_are_those_of_its_ranks_where_each_sees_one(cuda, monkeypatch):
    variables = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    found = as_here(Case(SCENARIO), here("cuda"), 16).scenario()
    assert (found.cluster.nodes, found.cluster.gpus_per_node) == (2, 8)


def test_a_gpu_in_use_by_others_is_reported(cuda):
    cuda.in_use = 40 * GIB
    rows = [{"rank": 0, "held_before_bytes": 38 * GIB}]
    (output,) = _sharing_notes(here("cuda"), rows)
    assert output.startswith("the GPU of rank 0 held 40.8 GB before the run: other processes")
    assert not [*_sharing_notes(here("cuda"), [{"rank": 0, "held_before_bytes": GIB}])]


def test_a_library_that_did_not_run_is_reported():
    of_gloo = Case(SCENARIO, ("cluster={nodes: 1, node: dgx-h100}",)).job()
    (output,) = _by_another_library(of_gloo, "nccl")
    assert output.startswith(
        "collectives were predicted as gloo's, and ran by nccl: strategy.aggre"
    )
    assert [*_by_another_library(of_gloo, "gloo")] == []
    of_none = Case(SCENARIO, ("strategy.aggregation.library=ideal",)).job()
    assert [*_by_another_library(of_none, "gloo")] == []


def test_a_processor_in_use_by_others_is_reported(cuda, monkeypatch):
    monkeypatch.setattr("validate.node.run.machine", lambda: {"cores": 2})
    rows = [{"processor_share": 0.95}, {"processor_share": 0.62}]
    (output,) = _busy_notes(Here("cpu", 2, "a processor", GIB), rows)
    assert output.startswith("a rank that computed had a processor for 62% of the time: other")
    assert not [*_busy_notes(Here("cpu", 2, "a processor", GIB), rows[:1])]
    assert not [*_busy_notes(here("cuda"), rows)]  # a host waits for its GPU
    # Four ranks on two cores take turns.
    assert not [*_busy_notes(Here("cpu", 4, "a processor", GIB), [{"processor_share": 0.48}] * 4)]


def test_the_reason_of_nccl_is_reported():
    output = (
        "NCCL error in: a.cpp:94, unhandled system error\nncclSystemError: System call failed.\n"
    )
    output += (
        "Last error:\nError while creating shared memory segment /dev/shm/nccl-x (size 9637888)"
    )
    assert first_line(RuntimeError(output)).endswith(
        "unhandled system error (Error while creating shared memory segment /dev/shm/nccl-x "
        "(size 9637888))"
    )


def test_the_state_of_a_gpu_is_part_of_what_was_measured(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '550.54.15, 700.00 W, 1980 MHz, 1980 MHz, Enabled, Disabled'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert gpu_state().startswith("driver_version 550.54.15, power.limit 700.00 W, clocks.app")
    assert provenance()["gpu_state"] == gpu_state()
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert "gpu_state" not in provenance()


def test_versions_of_cuda_and_nccl_are_reported_where_torch_has_them(cuda, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 21, 5))
    assert (provenance()["cuda"], provenance()["nccl"]) == ("12.4", "2.21.5")


def test_on_gpus_a_node_is_measured_in_the_precisions_and_sizes_of_gpus():
    node = Here("cuda", 8, "NVIDIA H100 80GB HBM3", 80 * GIB)
    models = ["gpt2", "llama3.2-1b", "resnet50"]
    items = items_of(node, scenario_here(node, 8), 8, "nccl", models)
    # A collective and two models come before all else.
    whats = [(item.settings.what if item.settings else (), item.ranks) for item in items]
    assert whats == [
        (("collectives",), 8),
        *[(("layers", "spread"), 8)] * 2,
        (("products", "optimizer", "copies"), 8),
        (("beside",), 8),
        *[((), 8)] * 2,  # torch's wrappers around them
        *[(("collectives",), 8)] * 2,
        (("layers", "spread"), 8),
        (("codecs", "point-to-point"), 8),
        *[(("layers", "spread"), 8)] * 3,
        *[(("layers", "spread"), 8)] * 4,  # two models captured, and compiled
        *[(("collectives",), 2)] * 3,
        *[(("spread",), 2)] * 6,
    ]
    assert {item.backend for item in items} == {"nccl"}
    assert {item.settings.device for item in items if item.settings} == {"cuda"}
    assert items[0].settings.sizes()[-1] == GIB
    assert [item.settings.precision for item in items[11:14]] == ["fp32"] * 3
    # What fits into the memory by what is predicted, at sequences of the model's own length.
    assert items[2].settings.batch_sizes == (1,)
    assert items[9].settings.batch_sizes == (8, 16, 32, 64)


def test_a_model_that_cannot_be_built_is_refused_before_anything_is_measured():
    node = Here("cpu", 8, "a processor", 80 * GIB)
    with pytest.raises(DpsimError, match="--model must be"):
        items_of(node, scenario_here(node, 2), 2, "gloo", ["resnet5O"])


@pytest.mark.parametrize(
    ("backend", "uuids", "why"),
    [
        ("nccl", ("GPU-a",), "2 ranks need a GPU each, and there are 1"),
        ("nccl", ("GPU-a", "GPU-b"), ""),
        ("gloo", ("GPU-a",), ""),
    ],
)
def test_a_backend_is_tried_where_there_are_gpus_for_its_ranks(monkeypatch, backend, uuids, why):
    stand_in(monkeypatch, uuids=uuids)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert why_not(backend, "cuda", 2) == why


def test_a_burst_and_its_answer_are_groups_of_their_own(monkeypatch):
    """NCCL takes what one group has for one peer in order: sends and an answer in it would hang."""
    groups = []

    def batch(operations):
        groups.append([operation.op.__name__ for operation in operations])
        return []

    monkeypatch.setattr(dist, "batch_isend_irecv", batch)
    monkeypatch.setattr(dist, "P2POp", lambda op, tensor, peer: type("P", (), {"op": op}))
    buffers = [torch.zeros(1)] * (BURST + 1)
    for first in (True, False):
        _burst(BURST, first, 1, buffers)
    assert groups == [["isend"] * BURST, ["irecv"], ["irecv"] * BURST, ["isend"]]


def test_a_scenario_runs_on_a_gpu_by_the_way_that_a_processor_takes(world, cuda):
    sets = ("cluster.nodes=1", "disturbance.slow=[{workers: [0], factor: 3}]")
    row = carry_out(Case(SCENARIO, sets).job(), world, "real")
    assert (row["device"], row["device_name"]) == ("cuda", "NVIDIA H100 80GB HBM3")
    assert row["peak_bytes"] == 4 * GIB
    assert len(row["step_s"]) == 3
    own = [cycles for _, cycles in sleeps(cuda)[-3:]]  # what comes before learns the clock
    assert [cycles / CYCLES_PER_SECOND for cycles in own] == pytest.approx(row["pauses_s"], rel=0.3)
    # What spins is a part of the step that no host can be late for.
    spun = np.array(own) / CYCLES_PER_SECOND
    assert (np.array(row["step_s"]) > spun).all()
    assert spun.min() > 0


SHARDED = "strategy.aggregation={kind: sharded}"


# What torch says of its own modules when they are first loaded.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("sets", "reported"),
    [
        (("workload.execution=graph",), {"mode": "reduce-overhead"}),
        (("workload.execution=cuda-graph",), {"backend": "cudagraphs"}),
        # FSDP2 moves weights, of which a graph would keep the place.
        (("workload.execution=graph", SHARDED), {}),
        (("workload.execution=cuda-graph", SHARDED), None),
    ],
)
def test_graphs_are_captured_on_gpus_where_weights_stay(world, monkeypatch, sets, reported):
    requested, begun = [], []
    monkeypatch.setattr(
        torch, "compile", lambda forward, **words: requested.append(words) or forward
    )
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: begun.append("a step"))
    row = carry_out(Case(SCENARIO, ("cluster.nodes=1", *sets)).job(), world, "real")
    assert [each for each in requested if each != reported] == []
    assert bool(requested) == (reported is not None)
    # Each training step marks its beginning, and so does each separate one.
    assert len(begun) == len(row["step_s"]) + 3 + len(row["alone_s"])


def test_gpus_of_another_kind_and_too_few_of_them_are_one_error(cuda):
    wanted = Case(SCENARIO, ("cluster={nodes: 4, node: dgx1-v100}",))
    with pytest.raises(DpsimError) as output:
        check(wanted.scenario(), here("cuda"), None)
    assert "its GPUs are v100-sxm2-16gb, and here are NVIDIA H100 80GB HBM3" in str(output.value)
    assert "it has 32 workers, and here are 1 GPUs. --as-here takes what is here" in str(
        output.value
    )
    found = as_here(wanted, here("cuda"), None).scenario()
    assert (found.cluster.accelerator.name, found.cluster.ranks) == ("h100-sxm", 1)
    check(found, here("cuda"), None)


def test_a_device_of_another_name_is_refused_before_ranks_start():
    with pytest.raises(DpsimError, match="must be a known device, but got 'gpu'"):
        here("gpu")


def test_workers_that_this_machine_cannot_hold_are_refused_before_ranks_start():
    large = ("cluster.nodes=32", "workload={model: vgg16, batch_per_gpu: 4096}")
    with pytest.raises(DpsimError, match="32 workers on one machine would need about"):
        on_node(Case(SCENARIO, (*large, "run.allow_out_of_memory=true")), device="cpu")


def test_a_launcher_of_another_size_is_refused(cuda):
    with pytest.raises(DpsimError, match="it has 2 ranks, and the launcher has started 3"):
        check(Case(SCENARIO).scenario(), here("cpu"), 3)
