"""One sentence on what limits a step: each rule on a step of which it is known."""

from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.studies.explain import link_words, verdict

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def output(*changes, file="quickstart"):
    changes = ["run.steps=4", "run.warmup=0", *changes]
    return verdict(simulate(load_scenario(SCENARIOS / f"{file}.yaml", changes)))


def test_where_most_is_computing_the_network_is_not_the_problem():
    text = output("cluster.network.nic=100GbE", "disturbance.jitter=null")
    assert text.endswith("computing: the network is not your problem.")


def test_slow_workers_are_named_where_they_cost_something():
    assert "waits for slower workers" in output("disturbance.slow=[{workers: [0], factor: 2}]")


def test_a_card_that_is_full_holds_the_step_back():
    text = output("cluster.network.nic=10GbE", file="sharded")
    assert text.startswith("The busiest network card is busy ")
    assert text.endswith("of the step: the network holds it back.")


def test_exposed_communication_is_reported_with_its_links():
    text = output("cluster.network.nic=1GbE", "strategy.overlap.kind=sequential")
    assert "exposed communication" in text or "holds it back" in text


def test_one_worker_sends_nothing():
    assert output("cluster.nodes=1", "cluster.node=single-gpu").endswith(
        "nothing is sent that could slow it."
    )


def test_what_does_not_fit_comes_first():
    text = output("workload.batch_per_gpu=1024", "run.allow_out_of_memory=true")
    assert text.startswith("It does not fit: each v100")


def test_waiting_for_input_names_the_slow_stage():
    text = output("workload.input.kind=storage", "workload.input.bandwidth=1 MB/s")
    assert "of the step waits for input: " in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("node0/nic0->switch", "the busiest network card"),
        ("node0/gpu0->nvswitch0", "the links between GPUs and NVSwitches within nodes"),
        ("node1/cpu0->cpu1", "the links between processors within nodes"),
        ("rail7->spine3", "the links between switches (rail7->spine3)"),
        ("node0/cpu0", "the processors within nodes"),
    ],
)
def test_links_have_names_that_a_sentence_can_hold(name, words):
    assert link_words(name) == words
