"""Memory beside public tables: what is known to have run on a GPU must be said to fit there."""

from functools import cache

import pytest

from dpsim.hardware import gpus
from dpsim.workload import Setup, footprint
from tools.refits.roofline_work import catalogue_name, layers, tokens_of
from validate.published.tables.columns import packaged_table

# What tables call GPUs that the catalogue knows by another name.
NAMED = {
    "A100 80GB SXM4": "a100-sxm-80gb",
    "H100 80GB SXM5": "h100-sxm",
    "H100 80GB PCIe Gen5": "h100-pcie",
    "P100": "p100-sxm2",
    "K80 (GK210 die)": "k80",
}
COLUMNS = ("gpu", "model", "batch", "seq_len", "precision", "quality", "mode")


def listed(name, **renamed):
    """The rows of a table as mappings; all are of training where the table does not say."""
    wanted = [renamed.get(column, column) for column in COLUMNS]
    table = packaged_table(name, tuple(column for column in wanted if column != "train"))
    texts = [
        ["train"] * len(table) if column == "train" else table.text(column).tolist()
        for column in wanted
    ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*texts, strict=True)]


@cache
def shares():
    """By quality, and by what ran: the share of a GPU's memory that it is said to take."""
    rows = listed("single_gpu.csv")
    rows += listed("scaling.csv", batch="per_gpu_batch", mode="train")
    found = {"ok": {}, "caution": {}}
    for row in rows:
        gpu, model = NAMED.get(row["gpu"], row["gpu"]), catalogue_name(row["model"])
        batch = int(float(row["batch"] or 0))
        if row["mode"] != "train" or model is None or gpu not in gpus() or not batch:
            continue
        precision = "fp32" if row["precision"].casefold().startswith(("fp32", "tf32")) else "fp16"
        setup = Setup(
            batch=batch,
            precision=precision,
            # Tables do not say it: what such models are trained with.
            optimizer="adam" if model.startswith("bert") else "momentum",
        )
        tokens = tokens_of(row["model"], float(row["seq_len"] or "nan"))
        what = (gpus()[gpu].name, model, tokens, batch, precision)
        quality = "ok" if row["quality"] == "ok" else "caution"
        taken = footprint(layers(model, tokens), setup).total
        found[quality][what] = taken / gpus()[gpu].memory.value
    return found


def test_every_batch_that_is_known_to_have_run_fits():
    assert len(shares()["ok"]) == 481  # as docs/explanation/memory.md says
    assert {what: share for what, share in shares()["ok"].items() if share > 1} == {}


def test_of_those_with_a_caution_one_is_a_little_over():
    assert len(shares()["caution"]) == 50
    over = {what[:2]: share for what, share in shares()["caution"].items() if share > 1}
    assert over == {("k80", "resnet50"): pytest.approx(1.073, abs=1e-3)}
