"""A model that FSDP2 divides: what each rank holds meanwhile, what it gathers, what it recomputes."""

import json
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

from dpsim.workload import WorkloadConfig
from validate.emulate import Case
from validate.node.program import carry_out
from validate.node.task import checkpoint
from validate.ranks.processes import joined
from validate.training import Task, blocks_of, method_named
from validate.twins import Subject, draw, subject_of

pytestmark = pytest.mark.torch

GPT = {"model_type": "gpt2", "n_layer": 4, "n_embd": 32, "n_head": 2, "vocab_size": 96}
SCENARIO = str(Path(__file__).parents[1] / "node" / "small.yaml")
SMALL = "1 B"  # each block is a unit


@pytest.fixture
def workload(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt.json").write_text(json.dumps({**GPT, "n_positions": 16}))

    def of(**words):
        return WorkloadConfig(model={"config": "gpt.json"}, batch_per_gpu=2, **words)

    return of


@pytest.fixture
def eight_ranks():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield init_device_mesh("cpu", (8,))
    dist.destroy_process_group()


class Drawn(Task):
    """Weights by `draw`; ``held`` has the bytes of weights that were there after each part."""

    __len__ = batch = loss = optimiser_settings = optimiser_class = model = None

    def __init__(self, whole):
        self.whole, self.held = whole, []

    def fill(self, part):
        draw(part, "cpu")
        self.held.append(held(self.whole))


Drawn.__abstractmethods__ = frozenset()


def held(model):
    return sum(here(each).nbytes for each in model.parameters() if not each.is_meta)


def here(parameter):
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def divided(workload, mesh, **settings):
    model = subject_of(workload).outline("cpu")
    checkpoint(model, workload)
    task = Drawn(model)
    method_named("fsdp", unit_size=SMALL, **settings).divide(model, task, mesh)
    return model, task


def test_a_rank_holds_its_part_and_one_unit_at_most(workload, eight_ranks):
    whole = held(subject_of(workload()).module("cpu"))
    model, task = divided(workload(), eight_ranks)
    unit = max(sum(each.numel() for each in block.parameters()) for block in blocks_of(model)) * 4
    root = 4 * (96 * 32 + 16 * 32 + 2 * 32)  # words, positions, the last norm
    assert held(model) == whole // 8
    assert len(task.held) == 5
    assert max(task.held) <= whole // 8 + max(unit, root)


def test_an_outline_gets_weights_as_modules_draw_them_and_keeps_what_is_tied(workload):
    model = subject_of(workload()).outline("cpu")
    assert all(each.is_meta for each in model.parameters())
    draw(model, "cpu")
    assert model.lm_head.weight is model.wte.weight
    assert (model.ln_f.weight == 1).all()
    assert (model.blocks[0].c_fc.weight != 0).any()
    again = subject_of(workload()).outline("cpu")
    draw(again, "cpu")
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


# What it says of changes in place, which nothing here makes.
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module", "ignore:Full backward hook")
def test_the_root_is_gathered_once_and_each_block_twice(workload, eight_ranks):
    model, _ = divided(workload(), eight_ranks)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    model(tokens).sum().backward()  # the first step sets up
    with CommDebugMode() as counted:
        model(tokens).sum().backward()
    gathers = sum(n for op, n in counted.get_comm_counts().items() if "allgather" in str(op))
    assert gathers == 2 * 4 + 1


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module", "ignore:Full backward hook")
def test_weights_that_are_kept_are_gathered_once(workload, eight_ranks):
    model, _ = divided(workload(), eight_ranks, reshard=False)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    model(tokens).sum().backward()
    with CommDebugMode() as counted:
        model(tokens).sum().backward()
    gathers = sum(n for op, n in counted.get_comm_counts().items() if "allgather" in str(op))
    assert gathers == 5


def called(calls, number, module, inputs):
    calls.append(number)


def test_segments_over_several_units_are_computed_twice_to_the_same_gradients(workload):
    tokens = torch.arange(32).view(2, 16)
    found = []
    with joined("gloo", "cpu"):
        mesh = init_device_mesh("cpu", (1,))
        for words in ({}, {"checkpointing": "every 27 layers"}):
            model, _ = divided(workload(**words), mesh)
            calls = []
            for number, block in enumerate(blocks_of(model)):
                block.ln_1.register_forward_pre_hook(partial(called, calls, number))
            model(tokens).square().mean().backward()
            found.append([each.grad.full_tensor() for each in model.parameters()])
    # Two segments of two blocks, the second first.
    assert calls == [0, 1, 2, 3, 2, 3, 0, 1]
    for plain, checkpointed in zip(*found, strict=True):
        torch.testing.assert_close(plain, checkpointed)


def sharded(*sets, **words):
    """What one rank measures of the model in a scenario."""
    own = {"model": {"config": str(Path("gpt.json").resolve())}, "batch_per_gpu": 2, **words}
    aggregation = "strategy.aggregation={kind: sharded, wrap: block}"
    case = Case(SCENARIO, (f"workload={json.dumps(own)}", aggregation, "cluster.nodes=1", *sets))
    with joined("gloo", "cpu") as world:
        return carry_out(case.job(), world, "real")


def test_no_rank_of_a_sharded_run_builds_a_whole_model(workload, monkeypatch):
    def whole(*reported):
        raise AssertionError("a whole model was built")

    workload()
    monkeypatch.setattr(Subject, "module", whole)
    # Computing is then timed separately before the run, too.
    row = sharded("disturbance.slow=[{workers: [0], factor: 1.5}]")
    assert len(row["step_s"]) == 3
    assert min(row["step_s"]) > min(row["alone_s"]) / 2 > 0


def test_a_model_that_is_divided_is_compiled_block_by_block(workload, monkeypatch):
    workload()
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda forward: compiled.append(forward) or forward)
    sharded(execution="compile")
    # In the run, and separately.
    assert [forward.__self__.__class__.__name__ for forward in compiled] == ["FSDPGptBlock"] * 4 * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's, of itself
def test_zero_1_broadcasts_what_a_rank_has_updated_in_one_piece(workload, monkeypatch):
    workload()
    sent = []
    usual = torch.distributed.broadcast

    def broadcast(tensor, *reported, **named):
        sent.append(tensor.numel())
        return usual(tensor, *reported, **named)

    monkeypatch.setattr(torch.distributed, "broadcast", broadcast)
    steps = len(sharded("strategy.aggregation={kind: sharded, stage: 1}")["step_s"])
    # Before the first step each tensor is, so that all ranks start alike.
    assert sent[-steps:] == [sum(sent[:-steps])] * steps
