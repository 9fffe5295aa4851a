"""What ranks put in, and what they are promised.

The same as the simulator's own definition of each operation.
"""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import OPERATIONS, algorithm, algorithm_names

pytest.importorskip("torch")

import torch

from validate.collectives.payload import TYPES, Check, poison, promised_parts, values
from validate.ranks.processes import (
    Place,
    choose,
    first_line,
    place_from_environment,
    ranks_of_launcher,
)

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_promises_are_what_the_operation_says(operation, ranks):
    schedule = algorithm(algorithm_names(operation)[0], operation).schedule(ranks)
    for elements in (0, 3, 37):
        split = schedule.chunking(elements)
        total = elements * schedule.vectors
        inputs = np.stack([values(rank, 0, total, torch.float64).numpy() for rank in range(ranks)])
        expected = OPERATIONS[operation].expected(inputs, split)
        for rank in range(ranks):
            found = np.full(total, np.nan)
            for part in promised_parts(operation, rank, ranks, split):
                found[part.start : part.end] = part.expected(torch.float64).numpy()
            np.testing.assert_array_equal(found, expected[rank])


@pytest.mark.parametrize("name", TYPES)
def test_sums_of_sixteen_ranks_are_exact_in_every_type(name):
    inputs = [values(rank, 0, 500, TYPES[name]) for rank in range(16)]
    total = inputs[0].clone()
    for each in inputs[1:]:
        total += each
    assert torch.equal(total.double(), sum(each.double() for each in inputs))


def test_inputs_differ_by_rank_and_place_and_are_the_same_in_any_blocks():
    first, second = (values(rank, 0, 1000, torch.float32) for rank in (0, 1))
    assert 100 < int((first == second).sum()) < 200  # one in seven by chance
    assert 100 < int((first[:-37] == first[37:]).sum()) < 200
    assert torch.equal(
        values(3, 2**20 - 5, 2**20 + 5, torch.int32), values(3, 0, 2**20 + 5, torch.int32)[-10:]
    )
    assert set(values(0, 0, 100, torch.uint8).tolist()) == set(range(7))


@pytest.mark.parametrize("name", ["float", "int32"])
def test_a_check_counts_what_is_wrong_and_poison_is_wrong_everywhere(name):
    parts = promised_parts("all-reduce", 0, 3, algorithm("ring").schedule(3).chunking(50))
    check = Check(parts, TYPES[name], "cpu")
    output = parts[0].expected(TYPES[name])
    assert check.wrong(output) == 0
    output[7] += 1
    assert check.wrong(output) == 1
    poison(output)
    assert check.wrong(output) == 50


WHOLE = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_a_place_is_what_the_launcher_says_or_one_rank():
    assert place_from_environment({}) == Place(0, 1, 0, 1)
    assert place_from_environment(WHOLE) == Place(1, 4, 0, 1)
    assert place_from_environment({**WHOLE, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}) == Place(
        1, 4, 1, 2
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "4"}, "RANK must be a number from 0 to 3, but got '4'"),
        ({"RANK": "-1"}, "RANK must be a number from 0 to 3, but got '-1'"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE must be a number from 1 to 1048576, but got 'many'"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT must be a number from 1 to 65535, but got '70000'"),
        (
            {"MASTER_ADDR": None},
            "MASTER_ADDR must be set in the environment of every rank, but is not",
        ),
        (
            {"WORLD_SIZE": None},
            "WORLD_SIZE must be set in the environment of every rank, but is not",
        ),
    ],
)
def test_a_broken_environment_is_named(changed, message):
    environment = {name: text for name, text in {**WHOLE, **changed}.items() if text is not None}
    with pytest.raises(DpsimError, match=message):
        place_from_environment(environment)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this is about machines without a GPU")
def test_tasks_of_another_launcher_without_ranks_are_refused():
    assert ranks_of_launcher({}) is None
    assert ranks_of_launcher({"SLURM_STEP_NUM_TASKS": "1"}) is None
    reported = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    assert ranks_of_launcher({**reported, "SLURM_STEP_NUM_TASKS": "4"}) == 4
    for name, launcher in (("SLURM_STEP_NUM_TASKS", "srun"), ("OMPI_COMM_WORLD_SIZE", "mpirun")):
        with pytest.raises(DpsimError, match=f"each of the 8 tasks that {launcher} has started"):
            ranks_of_launcher({name: "8"})


def test_a_machine_without_a_gpu_uses_gloo_and_says_why_not_nccl():
    backend, face = choose(Place())
    assert (backend, face.place) == ("gloo", torch.device("cpu"))
    with pytest.raises(DpsimError, match="--device must be one of this machine's, but got cuda"):
        choose(Place(), device="cuda")
    with pytest.raises(DpsimError, match="--backend must be one that is here, but got nccl: torch"):
        choose(Place(), backend="nccl")
    with pytest.raises(
        DpsimError,
        match=r"must be a known backend, but got 'glue' \(known: auto, gloo, mpi, nccl\)",
    ):
        choose(Place(), backend="glue")


def test_an_error_s_first_line_has_no_place_in_torch_s_sources():
    assert (
        first_line(RuntimeError("[/a/b.cc:129] Timed out waiting\nframe 1"))
        == "RuntimeError: Timed out waiting"
    )
    assert first_line(ValueError()) == "ValueError"
