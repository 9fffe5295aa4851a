"""Every method on real ranks, against what it should equal.

Torch DDP, one process on the whole batch, or the replay of its log.
"""

import itertools
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from staleness_of_logs import clock_gaps, version_gaps

from dpsim.scenario import shape_of
from dpsim.strategy.compression import CompressionConfig
from validate.ranks.launch import launch, loopback
from validate.training import (
    METHODS,
    Replayed,
    Training,
    method_named,
    replay,
)

pytestmark = pytest.mark.torch

MODELS = ("cnn", "transformer")
SLOW = (0.0, 0.02, 0.004, 0.02)  # seconds that workers wait in an iteration beside computing
STALENESS = 2
STEPS = 7
EXACT = 1e-10

# What should be the same as one process on the whole batch: name to (method, settings).
BULK_SYNCHRONOUS = {
    "ddp": ("ddp", {}),
    "ddp-small-buckets": ("ddp", {"bucket_size": "4 KiB"}),
    "zero-1": ("zero-1", {}),
    "fsdp": ("fsdp", {"unit_size": "1 KiB"}),
    "fsdp-groups": ("fsdp", {"group": 2, "reshard": False}),
    "through-host": ("through-host", {}),
    "library": ("library", {}),
    "schedule": ("schedule", {}),
    "schedule-butterfly": ("schedule", {"algorithm": "butterfly"}),
    "buckets": ("buckets", {}),
    "small-buckets": ("buckets", {"first_bucket": "1 KiB", "bucket_size": "4 KiB"}),
    "bsp": ("parameter-server", {}),
    "bsp-2-servers": ("parameter-server", {"servers": 2}),
    "ssp-0": ("parameter-server", {"sync": "ssp", "staleness": 0}),
    "backup-0": ("backup", {"spare": 0}),
    "local-sgd-1": ("local-sgd", {"every": 1}),
    "local-sgd-groups": ("local-sgd", {"every": 1, "group": 2, "outer": {}}),
    "local-sgd-outer": ("local-sgd", {"every": 1, "group": 1, "outer": {}}),
    "data-parallel": ("data-parallel", {}),
    "whole-batch": ("whole-batch", {}),
}
# What has no other truth than the order that it logged.
ORDERED = {
    "ssp": ("parameter-server", {"sync": "ssp", "staleness": STALENESS}),
    "asp": ("parameter-server", {"sync": "asp"}),
    "asp-2-servers": ("parameter-server", {"sync": "asp", "servers": 2}),
    "asp-sum": ("parameter-server", {"sync": "asp", "reduction": "sum"}),
    "backup": ("backup", {}),
    "local-sgd": ("local-sgd", {"every": 3}),
    "post-local-sgd": ("local-sgd", {"every": 3, "switch": 2}),
    "gossip-ring": ("gossip", {}),
    "gossip-exponential": ("gossip", {"graph": "exponential"}),
    "gossip-random-pairs": ("gossip", {"graph": "random-pairs"}),
    "ad-psgd": ("ad-psgd", {}),
    "sma": ("sma", {"learners": 3}),
}
# How far from `CompressedMean`: 0 where payloads are gathered, rounding of sums where ranks add up
# in another order.
ROUNDING = {"cast": 1e-3, "powersgd": 1e-5}
CODECS = {
    kind: ROUNDING.get(kind, 1e-7) if codec.sums_in_flight else 0
    for kind, codec in shape_of(CompressionConfig).kinds().items()
}
COMPRESSED = {f"codec-{kind}": ("compressed", {"codec": {"kind": kind}}) for kind in CODECS}


def cases(methods, models=MODELS, **settings):
    """Name and model to method and settings of training."""
    reported = {"steps": STEPS, "batch": 8, "learning_rate": 0.1, "momentum": 0.5, **settings}
    return {
        (name, model): (method_named(kind, **options), Training(model=model, **reported))
        for name, (kind, options) in methods.items()
        for model in models
    }


# By a hook of DDP: top-k of a whole gradient with error feedback, in whatever order it stands.
HOOK = {"hook-top-k": ("ddp", {"bucket_size": "1 TiB", "codec": {"kind": "top-k"}})}

CASES = {
    **cases(HOOK, models=["cnn"]),
    **cases(BULK_SYNCHRONOUS),
    **cases(ORDERED, pauses_s=SLOW),
    **cases(COMPRESSED, models=["cnn"]),
}
# A method sees gradients, of whatever model: with the transformer only these are tried often.
OFTEN = ("ddp", "fsdp", "bsp", "whole-batch")
WIDE = {(name, model) for name, model in CASES if model == "transformer" and name not in OFTEN}


def with_model(names):
    """Parameters ``name`` and ``model``: those tried only by `make test-wide` are marked."""
    return pytest.mark.parametrize(
        ("name", "model"),
        [
            pytest.param(name, model, marks=pytest.mark.wide if (name, model) in WIDE else ())
            for name in names
            for model in MODELS
        ],
    )


@pytest.fixture(scope="module")
def by_rank(wide, tmp_path_factory):
    """What each of four ranks found.

    By name and model its record, and what else ranks try; the first three also as a world.
    """
    folder = tmp_path_factory.mktemp("training")
    chosen = {key: case for key, case in CASES.items() if wide or key not in WIDE}
    (folder / "cases").write_bytes(pickle.dumps((chosen, cases({"ddp": ("ddp", {})}))))
    program = Path(__file__).with_name("training_ranks.py")
    launch(
        [sys.executable, str(program), str(folder)],
        loopback(4),
        timeout_s=300,
        connect_timeout_s=120,
        preload=["validate.training", "torch._dynamo"],
    )
    return [pickle.loads((folder / f"rank-{rank}").read_bytes()) for rank in range(4)]


@pytest.fixture(scope="module")
def four(by_rank):
    return {name: [found[name] for found in by_rank] for name in by_rank[3]}


@pytest.fixture
def ddp_of(by_rank):
    """Losses and weights of torch DDP on 3 or 4 workers."""

    def find(workers, model):
        found = [one["three"] for one in by_rank[:3]] if workers == 3 else by_rank
        records = [one["ddp", model] for one in found]
        return Replayed(losses(records), records[0].weights)

    return find


def losses(records):
    """By worker and iteration."""
    return [record.losses for record in records if record.losses]


def check_same(found, wanted, tolerance):
    """Lists of iterations may differ in length between workers."""
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance)


def skip_what_has_not_run(record):
    if record.not_run:
        assert not torch.cuda.is_available()
        pytest.skip(record.not_run)


def test_every_method_is_tried():
    assert {chosen.kind for chosen, _ in CASES.values()} == set(METHODS)


@with_model(BULK_SYNCHRONOUS)
def test_bulk_synchronous_methods_equal_ddp_and_the_whole_batch(name, model, four, ddp_of):
    records = four[name, model]
    skip_what_has_not_run(records[0])
    chosen, training = CASES[name, model]
    workers = chosen.workers(4)
    computing = records[:1] if name in ("whole-batch", "data-parallel") else records
    wanted = [replay(method_named("whole-batch"), records[:workers], training)]
    if workers > 2:
        wanted.append(ddp_of(workers, model))
    for one in wanted:
        np.testing.assert_allclose(
            np.mean(losses(computing), axis=0), np.mean(one.losses, axis=0), rtol=0, atol=EXACT
        )
        for record in computing:
            np.testing.assert_allclose(record.weights, one.weights, rtol=0, atol=EXACT)


@with_model(ORDERED)
def test_the_replay_of_the_log_gives_the_same_losses_and_weights(name, model, four):
    records = four[name, model]
    replayed = replay(*swapped(CASES[name, model], records))
    check_same(losses(records), replayed.losses, EXACT)
    for record in records:
        np.testing.assert_allclose(record.weights, replayed.weights, rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", CODECS)
def test_compressed_gradients_are_those_of_the_exchange(kind, four):
    name = f"codec-{kind}", "cnn"
    replayed = replay(*swapped(CASES[name], four[name]))
    tolerance = CODECS[kind] or EXACT
    check_same(losses(four[name]), replayed.losses, tolerance)
    for record in four[name]:
        np.testing.assert_allclose(record.weights, replayed.weights, rtol=0, atol=tolerance)


def test_a_codec_as_a_hook_of_ddp_gives_what_the_exchange_gives(four):
    check_same(losses(four["hook-top-k", "cnn"]), losses(four["codec-top-k", "cnn"]), 1e-6)
    hooked, exchanged = four["hook-top-k", "cnn"][0], four["codec-top-k", "cnn"][0]
    np.testing.assert_allclose(hooked.weights, exchanged.weights, rtol=0, atol=1e-6)
    assert hooked.parts_s["encode"]


def swapped(case, records):
    chosen, training = case
    return chosen, records, training


@pytest.mark.parametrize("model", ["cnn", pytest.param("transformer", marks=pytest.mark.wide)])
def test_what_is_replayed_was_not_in_step(model, four):
    """Or replays would prove little.

    Workers were apart, gradients were old, and no run is the bulk-synchronous one.
    """
    single = four["whole-batch", model][0].weights
    assert all(np.abs(four[name, model][0].weights - single).max() > 1e-6 for name in ORDERED)
    assert max(clock_gaps(four["asp", model][3].log, 3)) > STALENESS
    assert max(version_gaps(four["asp", model][3].log)) > 0
    assert any(event.what == "dropped" for event in four["backup", model][3].log)
    orders = [
        "".join(event.what[0] for event in four["ad-psgd", model][passive].log)
        for passive in (1, 3)
    ]
    assert any("ra" in order for order in orders), "models met while a gradient was computed"


@with_model(["bsp", "ssp-0", "ssp"])
def test_reads_keep_to_the_rule_of_ssp(name, model, four):
    staleness = STALENESS if name == "ssp" else 0
    workers, log = range(3), four[name, model][3].log
    finished, applied = dict.fromkeys(workers, 0), set()
    for event in log:
        if event.what == "pushed":
            assert event.clock == finished[event.worker]
            finished[event.worker] += 1
        elif event.what == "updated":
            applied.add((event.worker, event.clock))
        else:
            due = {
                (worker, clock) for worker in workers for clock in range(event.clock - staleness)
            }
            own = {(event.worker, clock) for clock in range(event.clock)}
            newest = event.clock + staleness - (not staleness)
            assert event.clock - min(finished.values()) <= staleness
            assert applied >= due | own
            assert all(clock <= newest for _, clock in applied)
            assert event.version == len(applied) // (1 if staleness else len(workers))
    assert len(applied) == len(workers) * CASES[name, model][1].steps


@pytest.mark.parametrize(
    ("name", "averages"),
    [
        ("local-sgd", {"models": [2, 5, 6]}),
        ("post-local-sgd", {"gradients": [0, 1], "models": [4, 6]}),
        ("local-sgd-1", {"models": list(range(STEPS))}),
    ],
)
def test_models_are_averaged_after_every_so_many_local_steps_and_at_the_end(name, averages, four):
    for record in four[name, "cnn"]:
        logged = [(event.what.split()[0], event.clock) for event in record.log]
        assert logged == [(what, step) for what, steps in averages.items() for step in steps]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("gossip-ring", [1, 3], [1, 3]), ("gossip-exponential", [3], [2])],
)
def test_a_worker_hears_from_its_neighbours_in_the_graph(name, first, second, four):
    log = four[name, "cnn"][0].log
    received = [
        sorted(event.worker for event in log if (event.what, event.clock) == ("received", step))
        for step in (0, 1)
    ]
    assert received == [first, second]


def test_models_and_optimisers_are_replicated_with_buffers_and_state(four):
    first, *others = (pickle.dumps(flat(state)) for state in four["replicated"])
    assert others == [first] * 3
    assert flat(four["replicated"][0]["optimiser"])["state", 0, "exp_avg"]


def flat(nest, path=()):
    """Paths to plain values; a tensor is a list of numbers."""
    if isinstance(nest, (dict, list, tuple)):
        items = nest.items() if isinstance(nest, dict) else enumerate(nest)
        return {
            place: value
            for key, inner in items
            for place, value in flat(inner, (*path, key)).items()
        }
    return {path: nest.tolist() if isinstance(nest, torch.Tensor) else nest}


def test_buckets_are_cut_as_torch_ddp_cuts_them(four):
    ours, theirs, _ = four["cut"][0]
    assert ours == theirs
    assert len(ours) > 2


def test_a_bucket_sets_out_when_the_last_of_its_gradients_is_ready(four):
    for buckets, _, gradients_ready in four["cut"]:
        assert gradients_ready == list(itertools.accumulate(map(len, buckets)))


def test_every_iteration_is_timed_in_parts(four):
    for key in CASES.keys() & four.keys():
        for record in four[key]:
            names = ("compute", "communication", "update") if record.step_s else ()
            parts = np.array([record.parts_s[part] for part in names])
            assert len(record.step_s) == len(record.losses)
            assert np.all(parts.sum(axis=0) <= np.array(record.step_s) + 1e-9) or not record.losses


def test_the_learners_average_model_is_formed_before_it_is_needed(four):
    events = [event for event in four["sma", "cnn"][0].log if event.what == "corrected"]
    assert (
        [event.version for event in events]
        == [event.clock for event in events]
        == list(range(STEPS))
    )
