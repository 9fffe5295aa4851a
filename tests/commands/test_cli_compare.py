"""`dpsim compare` ranks combinations and alternatives; tables fit and name their columns."""

import json

import pytest

from dpsim.base.units import amount
from dpsim.report.text.comparison import comparison_table
from dpsim.report.text.tables import headings
from dpsim.scenario import Scenario, full_path
from dpsim.studies.compare import compare
from dpsim.studies.variants import parse_alternative

QUICKSTART = "scenarios/quickstart.yaml"
FEW = ("--set", "run.steps=4", "--set", "run.warmup=1", "--set", "cluster.nodes=2")


def answered(dpsim, *requested):
    code, out, _ = dpsim("compare", QUICKSTART, *requested, *FEW, "--json")
    assert code == 0
    return json.loads(out)


def test_an_alternative_is_a_variant_beside_the_file_as_it_is(dpsim):
    requested = [
        "--alternative",
        "sync.kind=ssp",
        "--alternative",
        "compression.kind=powersgd,rank=2",
    ]
    answer = answered(dpsim, *requested)
    variants = [row["variant"] for row in answer["rows"]]
    assert sorted(map(len, variants)) == [0, 1, 2]
    assert {"strategy.compression.kind": "powersgd", "strategy.compression.rank": "2"} in variants
    assert answer["by"] == "sample-time"


def test_each_combination_stands_with_each_alternative(dpsim):
    answer = answered(dpsim, "--vary", "nodes=1,2", "--alternative", "sync.kind=local-sgd")
    assert len(answer["rows"]) == 4
    both = {"cluster.nodes": "2", "strategy.sync.kind": "local-sgd"}
    assert both in [row["variant"] for row in answer["rows"]]


MEASURED = "calibration={nodes: 2, step_time: 200 ms, source: a log}"


def test_variants_keep_the_scale_that_a_measured_step_gives_the_file(dpsim):
    """Scaled anew each would take 200 ms, as if no overlap policy and no network mattered."""
    vary = "strategy.overlap.kind=buckets,sequential"
    rows = answered(dpsim, "--vary", vary, "--set", MEASURED)["rows"]
    times = {row["variant"]["strategy.overlap.kind"]: row["step_time_s"]["mean"] for row in rows}
    assert times["buckets"] == pytest.approx(0.2)
    assert times["sequential"] > 1.1 * times["buckets"]
    assert len({row["calibration"]["compute_scale"] for row in rows}) == 1
    own = answered(dpsim, "--alternative", MEASURED.replace("200 ms", "300 ms"))["rows"]
    assert own[-1]["step_time_s"]["mean"] == pytest.approx(0.3)


def test_files_stand_side_by_side_and_have_the_same_variants(dpsim):
    files = [QUICKSTART, "scenarios/ssp.yaml"]
    code, out, _ = dpsim("compare", *files, "--vary", "cluster.nodes=1,2", "--json", *FEW[:4])
    assert code == 0
    rows = [row["variant"] for row in json.loads(out)["rows"]]
    wanted = {(file, nodes) for file in files for nodes in ("1", "2")}
    assert {(row["file"], row["cluster.nodes"]) for row in rows} == wanted
    single = answered(dpsim, "--vary", "cluster.nodes=1,2")["rows"]
    both = json.loads(out)["rows"]
    assert [row["step_time_s"] for row in both if row["variant"]["file"] == QUICKSTART] == [
        row["step_time_s"] for row in single
    ]


def test_more_samples_a_second_come_first_though_their_step_is_longer(dpsim):
    ask = ["--vary", "workload.batch_per_gpu=16,64"]
    by_sample = answered(dpsim, *ask)["rows"]
    by_step = answered(dpsim, *ask, "--by", "step-time")["rows"]
    assert [row["variant"]["workload.batch_per_gpu"] for row in by_sample] == ["64", "16"]
    assert [row["variant"]["workload.batch_per_gpu"] for row in by_step] == ["16", "64"]


def test_two_kinds_are_columns_of_their_own_name(dpsim):
    requested = ["--vary", "sync.kind=bsp,local-sgd", "--vary", "compression.kind=none,powersgd"]
    out = dpsim("compare", QUICKSTART, *requested, *FEW)[1]
    title, head = out.splitlines()[:2]
    assert title == "ranked by time per sample"
    assert [cell.strip() for cell in head.split("┃")][:3] == ["sync", "compression", "step"]


def test_headings_are_as_short_as_they_tell_columns_apart():
    assert headings(["strategy.sync.kind", "cluster.nodes", "cluster.network.fabric"]) == [
        "sync",
        "nodes",
        "network",
    ]
    assert headings(["strategy.sync.every", "strategy.sync.outer.every"]) == [
        "sync.every",
        "outer.every",
    ]


@pytest.mark.parametrize(
    ("number", "message"), [(1234.5, "1,234"), (99.6, "100"), (99.4, "99.4"), (4.8317, "4.83")]
)
def test_throughputs_below_100_have_three_digits(number, message):
    assert amount(number) == message


def test_a_short_name_is_a_field_of_a_section_or_stands_beside_the_last():
    assert full_path("sync.kind", Scenario) == "strategy.sync.kind"
    assert full_path("batch_per_gpu", Scenario) == "workload.batch_per_gpu"
    assert full_path("cluster.nodes", Scenario) == "cluster.nodes"
    assert full_path("rank", Scenario, "strategy.compression") == "strategy.compression.rank"
    assert parse_alternative("aggregation={kind: sharded, stage: 2},precision=fp16") == {
        "strategy.aggregation": "{kind: sharded, stage: 2}",
        "workload.precision": "fp16",
    }


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ([], "must have --vary, --alternative or a second file, but got one file alone"),
        (
            ["--alternative", "sync.kind"],
            "--alternative must be key=value,key=value,..., such as "
            "compression.kind=powersgd,rank=4, but got 'sync.kind'",
        ),
        (
            ["--alternative", "sync.kind=lcal-sgd"],
            "--alternative strategy.sync.kind=lcal-sgd: strategy.sync.kind: must be one of",
        ),
        (["--vary", "nodes=1,2", "--by", "tme"], "must be a known ranking, but got 'tme'"),
        (
            ["--vary", "nodes=1,2", "--by", "time-to-target", "--set", "workload.model=vgg19"],
            "--by time-to-target: must be known for at least one variant, but is for none",
        ),
    ],
)
def test_what_is_wrong_is_one_line(dpsim, requested, message):
    code, out, err = dpsim("compare", QUICKSTART, *requested, *FEW)
    assert (code, out) == (2, "")
    assert err.startswith(f"dpsim: {message}")


def test_python_has_the_same_answer_typed():
    few = ["run.steps=4", "run.warmup=1", "cluster.nodes=2"]
    done = []
    found = compare(
        QUICKSTART,
        ["overlap.kind=sequential,buckets"],
        overrides=few,
        progress=done.append,
    )
    assert found.best.values == {"strategy.overlap.kind": "buckets"}
    assert found.change(found.best) == 0
    assert found.change(found.rows[1]) > 0
    assert done == [1, 2]


def test_a_variant_that_does_not_fit_is_left_out_and_the_others_stand(dpsim):
    requested = ["--vary", "workload.batch_per_gpu=64,4096"]
    answer = answered(dpsim, *requested)
    (row,), (left_out,) = answer["rows"], answer["left_out"]
    assert row["variant"] == {"workload.batch_per_gpu": "64"}
    assert left_out["variant"] == {"workload.batch_per_gpu": "4096"}
    assert "must fit in the 16.9 GB of" in left_out["reason"]
    out = dpsim("compare", QUICKSTART, *requested, *FEW)[1]
    assert "left out: workload.batch_per_gpu=4096: workload: must fit" in " ".join(out.split())


def test_where_no_variant_fits_the_error_says_the_ways_out(dpsim):
    requested = ["--vary", "workload.batch_per_gpu=4096,8192"]
    code, out, err = dpsim("compare", QUICKSTART, *requested, *FEW)
    assert (code, out) == (2, "")
    assert "to make it fit" in err


def test_time_that_is_up_ends_the_comparison(dpsim, monkeypatch):
    monkeypatch.setenv("DPSIM_TIME_LIMIT", "0.001")
    code, _, err = dpsim("compare", QUICKSTART, "--vary", "run.steps=100,200", *FEW[2:])
    assert code == 1
    assert "left out" not in err


def test_where_there_is_a_price_it_is_a_column_and_may_rank(dpsim):
    """A GPU twice as dear per hour is worth it only where it is twice as fast."""
    dear = ("--vary", "cost.price_per_gpu_hour=1,2", "--by", "price")
    code, out, _ = dpsim("compare", QUICKSTART, *dear, *FEW)
    assert code == 0
    assert "USD/M samples" in out
    assert "kWh/M samples" in out
    assert answered(dpsim, *dear)["rows"][0]["variant"] == {"cost.price_per_gpu_hour": "1"}
    assert "price" not in dpsim("compare", QUICKSTART, "--vary", "cluster.nodes=1,2", *FEW)[1]
    listed = ("--vary", "cluster.nodes=1,2", "--by", "price")
    assert dpsim("compare", QUICKSTART, *listed, *FEW)[0] == 0
    unlisted = (
        "--set",
        "cluster.gpu={peak: {fp32: 9 TFLOP/s}, memory: 9 GB, memory_bandwidth: 9 GB/s}",
    )
    assert dpsim("compare", QUICKSTART, *listed, *FEW, *unlisted)[0] == 2


def test_what_run_warns_of_stands_below_the_table_with_the_rows_it_is_of(dpsim):
    """Of the four batches the larger two may not fit, and the GPU of all was never measured."""
    memory = "cluster.gpu={peak: {fp32: 9 TFLOP/s}, memory: 14 GB, memory_bandwidth: 9 GB/s}"
    requested = ["--vary", "workload.batch_per_gpu=32,64,96", "--set", memory]
    answer = answered(dpsim, *requested)
    doubtful = {
        row["variant"]["workload.batch_per_gpu"]: row["warnings"]
        for row in answer["rows"]
        if any("may not fit" in each for each in row["warnings"])
    }
    (batch,) = doubtful
    (line,) = (each for each in answer["notes"] if "may not fit" in each)
    assert line.startswith("warning: memory: may not fit: ")
    assert line.endswith(f" (workload.batch_per_gpu={batch})")
    extrapolated = answer["rows"][0]["interval_s"]["extrapolated"]
    assert extrapolated
    out = dpsim("compare", QUICKSTART, *requested, *FEW)[1]
    for text in extrapolated:
        assert out.count(f"extrapolated: {text}") == 1
    assert f"(workload.batch_per_gpu={batch})" in out


def test_different_global_batches_are_noted_unless_time_to_accuracy_is_compared(dpsim):
    requested = ["--vary", "workload.batch_per_gpu=16,32,64"]
    low, high = (f"{16 * batch:,} (workload.batch_per_gpu={batch})" for batch in (16, 64))
    message = f"global batches differ, from {low} to {high}"
    assert [each.partition(":")[0] for each in answered(dpsim, *requested)["notes"]][:1] == [
        message
    ]
    for others in (
        ["--vary", "overlap.kind=sequential,buckets"],
        [*requested, "--by", "time-to-target"],
    ):
        notes = answered(dpsim, *others)["notes"]
        assert not [each for each in notes if "global batches" in each]


@pytest.mark.parametrize("by", ["sample-time", "price"])
def test_a_ranking_by_price_names_its_change_and_a_total_has_the_price_of_a_token(by):
    """The price of 10e9 tokens is 1e4 times that of a million, by list prices too."""
    few = ["run.steps=2", "cluster.gpu=h100-sxm", "workload.checkpoint=full", "cost.tokens=1e10"]
    llm = "scenarios/llm/llama3-8b-64xh100.yaml"
    made = comparison_table(compare(llm, ["cluster.nodes=8,16"], by=by, overrides=few))
    columns = {str(column.header): list(column.cells) for column in made.columns}
    assert ("change of price per sample" in columns) == (by == "price")
    for price, each in zip(columns["price"], columns["USD/M tokens"], strict=True):
        total = float(price.removesuffix(" USD").replace(",", ""))
        assert float(each) == pytest.approx(total / 1e4, rel=5e-3)


def test_prices_in_two_currencies_are_not_ranked(dpsim):
    requested = ("--vary", "cost.currency=EUR,USD", "--set", "cost.price_per_gpu_hour=1", *FEW)
    assert dpsim("compare", QUICKSTART, *requested)[0] == 0
    _, out, _ = dpsim("compare", QUICKSTART, *requested)
    assert all(word in out for word in ("price/M samples", " EUR ", " USD "))
    code, out, err = dpsim("compare", QUICKSTART, *requested, "--by", "price")
    assert (code, out) == (2, "")
    assert err == "dpsim: --by price: must have prices in one currency, but got EUR and USD\n"


def test_what_costs_nothing_is_ranked_and_says_nothing_of_the_others(dpsim):
    found = answered(dpsim, "--vary", "cost.price_per_gpu_hour=1,0", "--by", "price")
    assert [row["variant"]["cost.price_per_gpu_hour"] for row in found["rows"]] == ["0", "1"]
    assert [row["is_best_too"] for row in found["rows"]] == [None, None]


def test_the_page_of_timelines_has_a_panel_for_each_variant_best_first(dpsim, tmp_path):
    page = tmp_path / "timelines.html"
    code, out, err = dpsim(
        "compare", "scenarios/parameter-server.yaml", "--vary", "sync.kind=bsp,ssp", "--html", page,
        "--json", *FEW,
    )  # fmt: skip
    assert (code, err.splitlines()[-1]) == (0, f"wrote {page}")
    best, other = (row["variant"]["strategy.sync.kind"] for row in json.loads(out)["rows"])
    text = page.read_text(encoding="utf-8")
    panels = [text.index(f'"text":"strategy.sync.kind={kind}"') for kind in (best, other)]
    assert panels == sorted(panels)
    # Four steps of all workers, though the runs that are compared begin with a warm-up.
    assert "step 1: " in text
    assert "step 4: " in text
    assert "step 5: " not in text
