"""The order in which stage 3 gathers its units of layers, and how early."""

from dataclasses import replace

import pytest

from dpsim import Scenario, simulate
from dpsim.engine import memory_use
from dpsim.strategy.aggregation import ShardedConfig
from dpsim.topology import Mesh
from dpsim.workload import Layer, Model, Program, build_model

# Layers of 1, 1, 2 and 3 MB of float32, so that units of 2 MB are layers 0 and 1, layer 2, layer 3.
MODEL = Model(
    "four-layers",
    tuple(
        Layer(f"layer{number}", "linear", (megabytes * 250_000,))
        for number, megabytes in enumerate((1, 1, 2, 3))
    ),
    "sample",
)
PROGRAM = Program(4)
MESH = Mesh(8, 4)
# Forward passes of the units begin at positions 0, 2 and 3 of a step; the backward pass begins with
# layer 3 at position 4, with layer 2 at 5 and with layer 1 at 6.
NEEDED = [
    ("unit0", 0),
    ("unit1", 2),
    ("unit2", 3),
    ("unit2-again", 4),
    ("unit1-again", 5),
    ("unit0-again", 6),
]


def test_stage_0_is_an_all_reduce():
    with pytest.raises(ValueError, match=r"must be 1, 2 or 3, .* \{kind: allreduce\}, but got 0"):
        ShardedConfig(kind="sharded", stage=0)


def gathers(prefetch):
    config = ShardedConfig(kind="sharded", stage=3, unit_size="2 MB", prefetch=prefetch)
    return [
        call
        for call in config.calls(MODEL, PROGRAM, batch=1, mesh=MESH)
        if call.payload == "weights"
    ]


def test_units_are_gathered_forwards_and_then_backwards():
    assert [(gather.name, gather.needed) for gather in gathers(1)] == NEEDED
    assert [gather.nbytes for gather in gathers(1)] == [2e6, 2e6, 3e6, 3e6, 2e6, 2e6]


@pytest.mark.parametrize(
    ("prefetch", "ready"),
    [
        (0, [0, 2, 3, 4, 5, 6]),
        (1, [0, 0, 2, 3, 4, 5]),
        (2, [0, 0, 0, 2, 3, 4]),
        (9, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_a_unit_is_gathered_as_many_units_ahead_as_are_prefetched(prefetch, ready):
    assert [gather.ready for gather in gathers(prefetch)] == ready


def requested(**settings):
    config = ShardedConfig(kind="sharded", stage=3, unit_size="2 MB", **settings)
    calls = config.calls(MODEL, PROGRAM, batch=1, mesh=MESH)
    return [call.ready for call in calls if call.payload == "weights"]


def test_torchs_words_for_prefetching():
    assert requested(backward_prefetch="pre") == requested() == [0, 0, 2, 3, 4, 5]
    # Both ask where the unit before is done, and stand on either side of its gradients.
    assert requested(backward_prefetch="BACKWARD_POST") == [0, 0, 2, 3, 5, 6]
    assert requested(backward_prefetch="none") == [0, 0, 2, 3, 5, 6]


@pytest.mark.parametrize(("words", "step"), [("pre", 11.25), ("post", 11.75), ("none", 12.25)])
def test_a_unit_is_gathered_beside_before_or_behind_the_gradients_of_the_last(tiny, words, step):
    """Gathers and scatters take 0.5 s. Layer 1 goes back from 3.5 to 7.5, layer 0 for 3 s after it.

    Layer 0's weights come meanwhile, until 8, or behind layer 1's gradients until 8.5. Then its
    gradients, and the update of a half.
    """
    aggregation = {"kind": "sharded", "unit_size": "1 B", "backward_prefetch": words}
    result = simulate(tiny(2, aggregation=aggregation, overlap="wfbp", run={"steps": 1}))
    assert result.mean_step == pytest.approx(step, rel=1e-8)


@pytest.mark.parametrize("kept", [{"reshard_after_forward": False}, {"limit_all_gathers": False}])
def test_weights_that_are_not_freed_are_all_in_memory(kept):
    """BERT has more blocks than the two that are gathered at a time."""

    def gathered(**settings):
        content = {
            "name": "memory",
            "cluster": {"nodes": 2, "node": "dgx-a100"},
            "workload": {"model": "bert-base", "batch_per_gpu": 1},
            "strategy": {"aggregation": {"kind": "sharded", **settings}},
        }
        return memory_use(Scenario.model_validate(content)).to_json()["breakdown"]["gather_buffers"]

    parameters = build_model("bert-base").parameters
    assert gathered() < 4 * parameters < gathered(**kept)


def test_without_the_rate_limit_all_units_are_gathered_at_once():
    assert requested(limit_all_gathers=False) == [0] * 6
    assert requested(limit_all_gathers=False, backward_prefetch="none") == [0, 0, 0, 0, 5, 6]


def test_units_may_be_the_blocks_of_a_model_with_their_gradients():
    model = build_model("gpt2")
    config = ShardedConfig(kind="sharded", wrap="block")
    units = config.units(model)
    blocks = [elements for _, _, elements in units[1:-1]]
    assert len(set(blocks)) == 1
    assert len(blocks) == 12
    assert sum(elements for _, _, elements in units) == model.parameters
    # The runs follow one another, and a unit's gradients go when its first layer is done.
    assert [one[1] for one in units[:-1]] == [one[0] for one in units[1:]]
    program = Program(len(model.layers))
    sent = [
        call
        for call in config.calls(model, program, batch=1, mesh=MESH)
        if call.payload == "gradients"
    ]
    assert [call.ready for call in sent] == [
        program.after_backward(0, first) for first, _, _ in reversed(units)
    ]
    assert sum(call.nbytes for call in sent) == 4 * model.parameters


def test_frozen_weights_are_gathered_and_have_no_gradients():
    frozen = replace(MODEL, layers=tuple(replace(each, frozen=True) for each in MODEL.layers[:3]))
    model = replace(MODEL, layers=(*frozen.layers, MODEL.layers[3]))
    config = ShardedConfig(kind="sharded", stage=3, unit_size="2 MB")
    calls = config.calls(model, PROGRAM, batch=1, mesh=MESH)
    weights = [(call.name, call.nbytes) for call in calls if call.payload == "weights"]
    # Backward reaches only the last layer.
    assert weights == [
        ("unit0", 2_000_000),
        ("unit1", 2_000_000),
        ("unit2", 3_000_000),
        ("unit2-again", 3_000_000),
    ]
    assert [call.nbytes for call in calls if call.payload == "gradients"] == [3_000_000]
    blocks = config.model_copy(update={"wrap": "block"}).calls(model, PROGRAM, batch=1, mesh=MESH)
    assert sum(call.nbytes for call in blocks if call.payload == "gradients") == 3_000_000


@pytest.mark.parametrize("library", ["gloo", "mpi"])
def test_sharded_steps_meet_by_either(tiny, library):
    def step(**aggregation):
        return simulate(tiny(4, aggregation={"kind": "sharded", "library": library, **aggregation}))

    assert step(stage=3).mean_step > step(stage=1).mean_step
    assert step().libraries[0].library == library
