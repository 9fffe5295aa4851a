"""Tokens per second and shares of the peak, against published MFU and its rules."""

import csv
from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import Utilisation, Work, model_flop
from dpsim.hardware import gpus
from dpsim.workload import build_model

# Rows of published tables, with MFU as published and by which rule. IBM's two-digit figures do not
# follow from the rule that they name, and are left out.
TABLE = Path(__file__).parent / "published_mfu.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))


def looked_up(model):
    """Elements of tables that are read by rows, and multiplied with nothing."""
    tied = sum(layer.borrowed for layer in model.layers)
    return sum(layer.own_weights for layer in model.layers if layer.kind == "embedding") - tied


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["row_id"])
def test_mfu_is_the_published_one(row):
    length = int(row["seq_len"])
    model = build_model(row["model"], length)
    gpu = gpus()[row["gpu"]]
    work = Work(length, model_flop(model), 0.0, gpu.peak[row["precision"]].value, 1)
    found = work.at(float(row["tokens_per_s_per_gpu"]) / length)
    assert found.tokens_per_s_per_gpu == pytest.approx(float(row["tokens_per_s_per_gpu"]))
    # Their N counts tables that are only looked up, ours does not: that is all the difference.
    flop = model_flop(model) / length
    theirs = flop + 6 * looked_up(model)
    assert flop / theirs * 0.985 < found.mfu / float(row["mfu"]) < 1.01


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["row_id"])
def test_model_flop_are_the_formula_of_a_decoder(row):
    length, layers, width = (int(row[key]) for key in ("seq_len", "layers", "hidden"))
    model = build_model(row["model"], length)
    multiplied = model.parameters - looked_up(model)
    formula = (6 * multiplied + 12 * layers * width * length) * length
    # Norms and biases are parameters of no product.
    assert model_flop(model) == pytest.approx(formula, rel=2e-3)


def lm(*overrides):
    settings = [
        "cluster.node=dgx-h100",
        "cluster.nodes=1",
        "workload={model: llama3.2-1b, batch_per_gpu: 1, precision: bf16, sequence_length: 2048}",
        "run={steps: 2, warmup: 0}",
    ]
    return simulate(load_scenario("scenarios/quickstart.yaml", [*settings, *overrides]))


def test_the_five_figures_follow_from_the_throughput():
    result = lm()
    found = result.utilisation
    rate = result.throughput_samples_per_s
    assert found.tokens_per_s == pytest.approx(2048 * rate)
    assert found.tokens_per_s_per_gpu == pytest.approx(2048 * rate / 8)
    assert found.mfu == pytest.approx(
        found.tflops_per_gpu * 1e12 / gpus()["h100"].peak["bf16"].value
    )
    assert found.hfu == found.mfu
    answer = result.to_json()
    assert answer["mfu"] == found.mfu
    assert answer["tokens_per_s"] == found.tokens_per_s


def test_what_checkpointing_computes_again_counts_in_hfu_alone():
    plain, full = lm(), lm("workload.checkpoint=full")
    model = build_model("llama3.2-1b", 2048)
    assert full.utilisation.mfu < plain.utilisation.mfu
    ratio = full.utilisation.hfu / full.utilisation.mfu
    head = sum(layer.forward_flop for layer in model.layers if layer.name == "lm_head")
    most = 1 + (model.forward_flop - head) / (3 * model.forward_flop)
    assert 1.1 < ratio < most < 4 / 3


def test_images_have_no_tokens_and_still_a_share_of_the_peak():
    found = simulate(
        load_scenario("scenarios/quickstart.yaml", ["run={steps: 2, warmup: 0}"])
    ).utilisation
    assert (found.tokens_per_s, found.tokens_per_s_per_gpu) == (None, None)
    assert 0 < found.mfu == found.hfu < 1


def test_what_is_not_known_is_null():
    assert Work(512, 0.0, 0.0, 1e12, 4).at(2.0) == Utilisation(1024.0, 256.0)
    assert Work(None, 1e12, 1e12, 0.0, 4).at(2.0) == Utilisation(tflops_per_gpu=0.5)


def test_of_several_kinds_of_gpu_the_peaks_add_up():
    groups = "cluster={groups: [{node: dgx-a100}, {node: dgx1-v100}]}"
    found = simulate(
        load_scenario(
            "scenarios/quickstart.yaml",
            [groups, "workload.precision=fp16", "run={steps: 2, warmup: 0}"],
        )
    ).utilisation
    peaks = [gpus()[name].peak["fp16"].value for name in ("a100", "v100-sxm2-16gb")]
    mean = sum(peaks) / 2
    assert found.tflops_per_gpu * 1e12 / found.mfu == pytest.approx(mean)


def test_tables_and_figures_speak_of_tokens_where_there_are_any():
    from dpsim.report.figures.columns_figure import axis_title
    from dpsim.report.figures.scaling_figures import scaling_figure
    from dpsim.report.text.tables import compare_table, run_notes

    result = lm()
    rate, mfu = f"{result.utilisation.tokens_per_s:,.0f}", f"{result.utilisation.mfu:.1%}"
    notes = "\n".join(run_notes(result))
    assert f"tokens      {rate} tokens/s" in notes
    assert f"MFU {mfu}" in notes
    table = compare_table([({"cluster.nodes": "1"}, result)])
    cells = {str(column.header): next(iter(column.cells)) for column in table.columns}
    assert (cells["tokens/s"], cells["MFU"]) == (rate, mfu)
    figure = scaling_figure([result])
    assert figure.layout.yaxis.title.text == "throughput (tokens/s)"
    assert axis_title("tokens_per_s_per_gpu") == "tokens/s per GPU"
