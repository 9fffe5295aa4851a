"""Cost and energy, by hand on the tiny job: 12.5 s a step, 10.5 s of them busy, 16 samples."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dpsim import Scenario, load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.hardware import gpus, list_price
from dpsim.report.text.tables import run_notes
from dpsim.scenario import CostConfig

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


def spent(scenario, **cost):
    return simulate(scenario.model_copy(update={"cost": CostConfig.model_validate(cost)}))


def test_money_is_gpu_hours_times_the_price(tiny):
    cost = spent(tiny(), price_per_gpu_hour=3.6, currency="EUR").cost
    assert (cost.per_hour, cost.currency, cost.to_target) == (7.2, "EUR", None)
    assert cost.per_step == pytest.approx(2 * 12.5 * 0.001)
    assert cost.per_million_samples == pytest.approx(2 * 12.5 * 0.001 / 16 * 1e6)


def test_without_a_price_or_a_power_there_is_no_cost(tiny):
    result = simulate(tiny())
    assert result.cost is None
    assert result.energy is None
    assert result.to_json()["cost"] is None


def test_energy_is_power_while_busy_and_while_waiting(tiny):
    given = {"power_per_gpu": "100 W", "waiting_power": 0.5, "power_per_node": "40 W", "pue": 1.5}
    energy = spent(tiny(), **given).energy
    busy = 10.5 / 12.5
    power = 1.5 * (200 * (busy + (1 - busy) * 0.5) + 2 * 40)
    assert energy.busy_share == pytest.approx(busy)
    assert energy.power_W == pytest.approx(power)
    assert energy.per_step_J == pytest.approx(power * 12.5)
    assert energy.per_sample_J == pytest.approx(power * 12.5 / 16)
    assert energy.source == "given in the scenario"


def test_the_catalogues_power_is_an_upper_bound_with_its_source():
    energy = simulate(load_scenario(QUICKSTART, ["run.steps=2"])).energy
    assert energy.power_W == 32 * 300
    assert energy.source == "thermal design power: NVIDIA Tesla V100 datasheet, 2018"


def test_groups_of_several_gpus_draw_what_theirs_do():
    content = {
        "name": "two kinds",
        "cluster": {
            "groups": [
                {"node": "dgx1-v100", "gpus_per_node": 2},
                {"node": "single-gpu", "gpu": "t4"},
            ]
        },
        "workload": {"model": "alexnet", "batch_per_gpu": 8},
        "run": {"steps": 1, "warmup": 0},
    }
    energy = simulate(Scenario.model_validate(content)).energy
    assert energy.power_W == 2 * 300 + 70
    assert energy.gpu_power_W == pytest.approx(670 / 3)


def test_each_kind_of_gpu_waits_at_its_own_power():
    """The V100s wait for the T4 most of the time, at no power."""
    content = {
        "name": "two kinds",
        "cluster": {"groups": [{"node": "single-gpu", "gpu": gpu} for gpu in ("v100", "t4")]},
        "workload": {"model": "alexnet", "batch_per_gpu": 64},
        "run": {"steps": 1, "warmup": 0},
        "cost": {"waiting_power": 0},
    }
    result = simulate(Scenario.model_validate(content))
    fast, slow = (result.steps.compute + result.steps.encode)[0] / result.mean_step
    assert fast < 0.8 * slow
    assert result.energy.power_W == pytest.approx(300 * fast + 70 * slow)


def test_cost_to_the_target_is_that_of_its_gpu_hours():
    result = simulate(load_scenario(QUICKSTART, ["run.steps=2", "cost.price_per_gpu_hour=2.5"]))
    assert result.cost.to_target == pytest.approx(2.5 * result.to_target.training.gpu_hours)
    assert result.energy.to_target_J == pytest.approx(
        result.energy.power_W * result.to_target.training.time_s
    )


def test_a_known_factor_on_compute_times_is_the_fitted_one_kept(tiny):
    """Half of 10 s of passes and 0.5 s of update, and the 2 s of communication that stay."""
    scaled = Scenario.model_validate(
        {**dict(tiny()), "calibration": {"compute_scale": 0.5, "source": "by hand"}}
    )
    result = simulate(scaled)
    assert result.step_time_s["mean"] == pytest.approx(5 + 2 + 0.25)
    assert result.calibration == {"compute_scale": 0.5, "source": "by hand"}


def test_text_is_paid_by_the_token():
    gpt2 = "workload={model: gpt2, batch_per_gpu: 1, precision: fp16}"
    result = simulate(load_scenario(QUICKSTART, [gpt2, "cost.price_per_gpu_hour=3.6"]))
    seconds = 1e6 / result.utilisation.tokens_per_s
    assert result.cost.per_million_tokens == pytest.approx(32 * seconds * 3.6 / 3600)


def test_a_total_is_all_samples_at_the_throughput(tiny):
    """16 samples in 12.5 s on 2 GPUs: a million take 781,250 s."""
    total = spent(tiny(), price_per_gpu_hour=3.6, samples="1M", power_per_gpu="100 W").total
    assert total.time_s == pytest.approx(781_250)
    assert total.gpu_hours == pytest.approx(2 * 781_250 / 3600)
    assert total.price == pytest.approx(2 * 781_250 * 0.001)
    assert total.energy_kwh == pytest.approx(200 * 781_250 / 3.6e6)
    assert (total.currency, total.price_source) == ("USD", "given in the scenario")


def test_a_total_without_a_price_is_at_list_prices_and_of_an_unlisted_gpu_at_none(tiny):
    total = simulate(load_scenario(QUICKSTART, ["run.steps=2", "cost.samples=1M"])).total
    assert total.price == pytest.approx(total.gpu_hours * total.price_per_gpu_hour)
    assert "list price" in total.price_source
    assert spent(tiny(), samples="1M").total.price is None


def test_tokens_and_epochs_are_samples(tiny):
    gpt2 = "workload={model: gpt2, batch_per_gpu: 1, precision: fp16, sequence_length: 128}"
    result = simulate(load_scenario(QUICKSTART, [gpt2, "run.steps=2", "cost.tokens=128M"]))
    assert result.total.samples == 1e6
    imagenet = simulate(load_scenario(QUICKSTART, ["run.steps=2", "cost.epochs=2"]))
    assert imagenet.total.samples == 2 * 1_281_167
    # On 32 workers with a sample of 128 tokens each.
    message = "in 31,250 steps of 32 (4,096 tokens)"
    assert any(message in line for line in run_notes(result))
    for amount, message in ({"tokens": 1}, "reads text"), ({"epochs": 1}, "data set"):
        with pytest.raises(DpsimError, match=message):
            spent(tiny(), **amount)


@pytest.mark.parametrize(("last", "steps"), [("drop", 1), ("pad", 2)])
def test_epochs_of_a_data_set_take_its_steps(last, steps):
    """Of 3,000 samples a step takes 2,048: so long as the epoch says, not 3,000 / 2,048 steps."""
    data = f"workload.dataset={{samples: 3000, last_batch: {last}}}"
    result = simulate(load_scenario(QUICKSTART, ["run.steps=2", data, "cost.epochs=4"]))
    assert result.total.samples == 4 * steps * 2048
    assert result.total.time_s == pytest.approx(4 * result.epoch_time_s)


def test_time_lost_to_crashes_is_in_the_total():
    crashes = "disturbance.crashes={mtbf: 100 h, checkpoint_interval: 1 h, restart_time: 5 min}"
    requested = ["run.steps=2", "cost.samples=1M"]
    free = simulate(load_scenario(QUICKSTART, requested))
    crashing = simulate(load_scenario(QUICKSTART, [*requested, crashes]))
    assert crashing.total.time_s == pytest.approx(free.total.time_s / crashing.goodput.useful)


def test_every_list_price_is_of_a_gpu_of_the_catalogue_with_source_and_year():
    prices = YAML(typ="safe").load(files("dpsim.hardware").joinpath("prices.yaml").read_text())
    for name, price in prices.items():
        assert list_price(gpus()[name]).value == price["value"] > 0
        assert re.search(r"20\d\d|assumed", price["source"]), name
