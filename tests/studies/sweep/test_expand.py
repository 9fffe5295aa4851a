"""From files to points: which there are, in which order, what they are called and what is
refused.
"""

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_sweeps import SWEEP

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.scenario import load_yaml
from dpsim.scenario.document import Place, node_of
from dpsim.scenario.sweep import ParameterConfig
from dpsim.studies.sweep import plan, point
from dpsim.studies.sweep.axis import Axis
from dpsim.studies.sweep.columns import varied_names


def values(points, path):
    return [point.varied[path] for point in points]


def test_a_file_without_a_sweep_is_one_point(write):
    (point,) = plan([write()]).points
    assert (point.name, point.seed, point.varied, point.error) == ("tiny", 0, {}, None)
    assert point.scenario.sweep is None


def test_a_grid_is_every_combination_the_last_parameter_fastest(write):
    points = plan(
        [
            write(
                "{parameters: {cluster.nodes: {values: [2, 4]}, strategy.overlap.kind: {values: "
                "[wfbp, buckets]}}}"
            )
        ]
    ).points
    pairs = zip(
        values(points, "cluster.nodes"), values(points, "strategy.overlap.kind"), strict=True
    )
    assert list(pairs) == list(product([2, 4], ["wfbp", "buckets"]))
    assert [point.scenario.cluster.nodes for point in points] == [2, 2, 4, 4]


def test_points_keep_the_scale_that_a_measured_step_gives_the_file(write):
    path = write("{parameters: {strategy.overlap.kind: {values: [wfbp, sequential]}}}")
    measured = "calibration={nodes: 2, step_time: 20 s, source: a log}"
    points = plan([path], [measured]).points
    scales = {point.scenario.calibration.compute_scale for point in points}
    assert len(points) == 2
    assert len(scales) == 1
    (single,) = plan([write()], [measured]).points
    assert single.scenario.fitted_to == "a log"


def test_zip_takes_the_values_side_by_side(write):
    points = plan(
        [
            write(
                "{method: zip, parameters: {cluster.nodes: {values: [2, 4]}, run.seed: {values: "
                "[5, 6]}}}"
            )
        ]
    ).points
    assert [(point.scenario.cluster.nodes, point.scenario.run.seed) for point in points] == [
        (2, 5),
        (4, 6),
    ]


RANDOM = "{{method: random, samples: {}, seed: {}, parameters: {{cluster.nodes: {{low: 2, high: 9}}{}}}}}"


def test_random_draws_depend_only_on_the_seed_and_the_path(write):
    few, many, other = (
        values(plan([write(RANDOM.format(*of, ""))]).points, "cluster.nodes")
        for of in ((4, 1), (30, 1), (30, 2))
    )
    assert many[:4] == few
    assert many != other
    assert set(many) <= set(range(2, 10))
    beside = plan([write(RANDOM.format(4, 1, ", run.seed: {values: [7, 8]}"))]).points
    assert values(beside, "cluster.nodes") == few
    assert set(values(beside, "run.seed")) <= {7, 8}


def test_a_range_may_have_a_unit(write):
    sweep = "{method: random, samples: 20, parameters: {strategy.overlap.bucket_size: {low: 1, high: 64, log: true, unit: MiB}}}"
    sizes = values(plan([write(sweep)]).points, "strategy.overlap.bucket_size")
    assert all(2**20 <= size <= 2**26 for size in sizes)
    assert 4 < sum(size < 2**23 for size in sizes) < 16, (
        "half the sizes are below the geometric mean"
    )


def test_hardware_values_are_in_si_units_too(write):
    """A figure of an inline link has a source; the column holds its number, not the text given."""
    nic = "cluster.network.nic: {values: [{name: own, rate: 1 GB/s, latency: 5 us}]}"
    rates = "cluster.network.nic.rate: {values: [8 Gbit/s, {value: 2 GB/s, source: a datasheet}]}"
    latencies = "cluster.network.nic.latency: {values: [1 us]}"
    points = plan([write(f"{{parameters: {{{nic}, {rates}, {latencies}}}}}")]).points
    assert values(points, "cluster.network.nic.rate") == [1e9, 2e9]
    assert values(points, "cluster.network.nic.latency") == [1e-6, 1e-6]


@given(st.floats(0.5, 1e3), st.floats(0.1, 1e3), st.booleans(), st.booleans(), st.integers(0, 9))
def test_draws_stay_in_their_range(low, width, log, whole, seed):
    high = low + width + whole  # so that there is a whole number in between
    axis = Axis("x", ParameterConfig(low=low, high=high, log=log), node_of({}, Place("x")), whole)
    draws = axis.draws(seed)
    for _ in range(20):
        value = next(draws).value
        assert low <= value <= high
        assert isinstance(value, int) == whole


def test_whole_numbers_come_equally_often():
    axis = Axis("x", ParameterConfig(low=1, high=4), node_of({}, Place("x")), whole=True)
    draws = axis.draws(0)
    drawn = [next(draws).value for _ in range(4000)]
    assert all(900 < drawn.count(value) < 1100 for value in (1, 2, 3, 4))


def test_run_cap_takes_the_first_points_and_says_so(write):
    path = write("{run_cap: 2, parameters: {run.seed: {values: [3, 1, 2]}}}")
    planned = plan([path])
    assert [point.seed for point in planned.points] == [3, 1]
    assert planned.notes == (f"{path}: run_cap: the first 2 of 3 points",)


def test_a_cap_makes_an_endless_grid_short(write):
    axes = ", ".join(
        f"{path}: {{values: {list(range(1, 51))}}}"
        for path in ("run.seed", "run.steps", "cluster.nodes", "run.warmup")
    )
    assert len(plan([write(f"{{run_cap: 3, parameters: {{{axes}}}}}")]).points) == 3
    with pytest.raises(
        ScenarioError, match=r"at most 100,000 points \(or a run_cap\), but got 6,250,000"
    ):
        plan([write(f"{{parameters: {{{axes}}}}}")])


def test_kinds_come_before_their_fields_whatever_the_order_in_the_file(write):
    for parameters in (
        "strategy.sync.kind: {values: [ssp]}, strategy.sync.staleness: {values: [2]}",
        "strategy.sync.staleness: {values: [2]}, strategy.sync.kind: {values: [ssp]}",
    ):
        servers = "strategy.aggregation: {values: [{kind: parameter-server}]}"
        (point,) = plan([write(f"{{parameters: {{{parameters}, {servers}}}}}")]).points
        assert point.scenario.strategy.sync.staleness == 2
        assert point.varied["strategy.aggregation"] == '{"kind": "parameter-server"}'


def test_incompatible_values_are_points_with_an_error(write):
    kinds = "strategy.aggregation.kind: {values: [allreduce, gossip]}, strategy.overlap.kind: {values: [priority, wfbp]}"
    errors = [point.error for point in plan([write(f"{{parameters: {{{kinds}}}}}")]).points]
    assert [error is None for error in errors] == [True, True, False, True]
    assert "gossip exchanges whole models" in errors[2]


def test_a_folder_is_all_its_scenarios_and_nothing_else(write, tmp_path):
    for name in ("b.yaml", "a/z.yml", "a/b.yaml", ".hidden/x.yaml", "notes.txt"):
        write(name=name)
    node = write(name="node.yaml", text="gpu: v100\n")
    planned = plan([tmp_path, tmp_path / "b.yaml"])
    assert [point.file for point in planned.points] == [
        str(tmp_path / name) for name in ("a/b.yaml", "a/z.yml", "b.yaml")
    ]
    assert planned.notes == (
        f"{node}: left out, no scenario: it has none of cluster, testbed, workload",
    )
    with pytest.raises(ScenarioError, match="is missing"):
        plan([node])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DpsimError, match="must hold scenario files"):
        plan([tmp_path / "empty"])


def test_overrides_reach_every_file_and_its_sweep(write, tmp_path):
    write()
    write("{parameters: {run.seed: {values: [1, 2, 3]}}}", "more.yaml")
    with pytest.raises(ScenarioError, match=r"--set sweep\.run_cap=2"):
        plan([tmp_path], ["sweep.run_cap=2"])
    points = plan([tmp_path / "more.yaml"], ["sweep.run_cap=2", "run.steps=9"]).points
    assert [(point.scenario.run.steps, point.seed) for point in points] == [(9, 1), (9, 2)]


WRONG = [
    (
        "{parameters: {workload.batch_per_gpu: {values: [16, 0]}}}",
        "11:60: workload.batch_per_gpu: must be at least 1, but got 0",
    ),
    (
        "{parameters: {cluster.nodez: {values: [1]}}}",
        "11:22: cluster.nodez: is not a known key (did you mean 'node'?)",
    ),
    (
        "{parameters: {clustr.nodes: {values: [1]}}}",
        "11:46: clustr: is not a known key (did you mean 'cluster'?)",
    ),
    (
        "{parameters: {cluster.nodes: {values: [true]}}}",
        "11:47: cluster.nodes: must be an integer, but got true",
    ),
    (
        "{method: gird, parameters: {cluster.nodes: {values: [1]}}}",
        "11:17: sweep.method: must be one of grid, zip, random, but got 'gird' (did you mean "
        "'grid'?)",
    ),
    (
        "{parameters: {run.seed: {values: []}}}",
        "11:41: sweep.parameters.run.seed.values: must have at least 1 entries, but got 0",
    ),
    ("{parameters: {}}", "11:21: sweep.parameters: must have at least 1 entries, but got 0"),
    (
        "{parameters: {run.seed: {low: 1}}}",
        "11:32: sweep.parameters.run.seed: must have either values, or low and high, but got low",
    ),
    (
        "{parameters: {run.seed: {values: [1], log: true}}}",
        "11:32: sweep.parameters.run.seed: must have values without log, which make a range",
    ),
    (
        "{parameters: {run.seed: {low: 1, high: 3}}}",
        "11:8: sweep: must have values in place of a range for run.seed (ranges are for random), "
        "but got method grid",
    ),
    (
        "{method: random, parameters: {run.seed: {values: [1]}}}",
        "11:8: sweep: must have samples with method random, but got none",
    ),
    (
        "{samples: 3, parameters: {run.seed: {values: [1]}}}",
        "11:8: sweep: must have no samples with method grid, but got 3",
    ),
    (
        "{method: random, samples: 3, parameters: {run.seed: {low: 5, high: 3}}}",
        "11:60: sweep.parameters.run.seed: must have low below high, but got 5 and 3",
    ),
    (
        "{method: random, samples: 3, parameters: {run.seed: {low: 0, high: 3, log: true}}}",
        "11:60: sweep.parameters.run.seed: must have low above 0 if log is true, but got 0",
    ),
    (
        "{method: random, samples: 3, parameters: {run.seed: {low: 0.2, high: 0.7}}}",
        "11:60: sweep.parameters.run.seed: must hold a whole number, but got 0.2 to 0.7",
    ),
    (
        "{method: random, samples: 2, parameters: {strategy.overlap.bucket_size: {low: 1, high: "
        "3, unit: MiBB}}}",
        "whose unit 'MiBB' is not known",
    ),
    (
        "{method: zip, parameters: {cluster.nodes: {values: [1, 2]}, run.seed: {values: [1]}}}",
        "11:8: sweep: must have equally many values of each parameter to zip, but got 2 of "
        "cluster.nodes, 1 of run.seed",
    ),
    (
        "{parameters: {sweep.seed: {values: [1]}}}",
        "11:21: sweep.parameters: must be fields of the scenario, not of its sweep, but got "
        "'sweep.seed'",
    ),
    (
        "{parameters: {a b: {values: [1]}}}",
        "11:21: sweep.parameters: must have paths as keys, such as cluster.nodes, but got 'a b'",
    ),
    (
        "{run_cap: 0, parameters: {run.seed: {values: [1]}}}",
        "11:18: sweep.run_cap: must be greater than 0, but got 0",
    ),
    ("[1]", "11:8: sweep: must be a mapping, but got a list"),
]


@pytest.mark.parametrize(("sweep", "message"), WRONG)
def test_an_error_has_its_place(write, sweep, message):
    path = write(sweep)
    with pytest.raises(ScenarioError) as caught:
        plan([path])
    output = str(caught.value).splitlines()[0]
    assert output.startswith(f"{path}:11:")
    assert output.endswith(message)


def test_two_scenarios_have_one_key_where_they_are_the_same(write, tmp_path):
    def key_of(**options):
        (point,) = plan([write(**options)]).points
        return point.key

    plain = write().read_text()
    spelled = plain.replace("{steps: 3, warmup: 0}", "{warmup: 0, steps: 3, seed: 0}").replace(
        "25GbE", "'25GbE'"
    )
    assert key_of() == key_of(name="elsewhere/other.yaml") == key_of(text=spelled)
    assert re.fullmatch("[0-9a-f]{64}", key_of())
    assert key_of() != key_of(text=plain.replace("steps: 3", "steps: 4"))


def test_a_key_holds_what_a_named_file_holds(write, tmp_path, two_layers):
    def key_of(name):
        (point,) = plan(
            [
                write(
                    name=f"{name}.yaml",
                    text=write().read_text().replace("alexnet", f"{{profile: {name}.json}}"),
                )
            ]
        ).points
        return point.key

    (tmp_path / "a.json").write_text(two_layers.read_text())
    (tmp_path / "b.json").write_text(two_layers.read_text())
    assert key_of("a") == key_of("b")
    (tmp_path / "b.json").write_text(two_layers.read_text().replace("two-layers", "two-others"))
    assert key_of("a") != key_of("b")


@pytest.mark.parametrize(
    ("changed", "counts"),
    [("engine/job.py", True), ("gpus/v100.yaml", True), ("report/x.py", False)],
)
def test_a_key_holds_the_code(write, monkeypatch, tmp_path, changed, counts):
    def digest(folder):
        for name in ("engine/job.py", "gpus/v100.yaml", "report/x.py"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True)
            path.write_text("changed" if folder == "after" and name == changed else "before")
        return point._code(tmp_path / folder)

    assert (digest("before") != digest("after")) == counts
    before = plan([write()]).points[0].key
    monkeypatch.setattr(point, "_code", lambda root: "other code")
    assert plan([write()]).points[0].key != before


def points_elsewhere(base, values, here=point.surroundings):
    """Points as another machine makes them that has none of this one's files."""
    made = point.make_elsewhere(point.pack((here(), base, values)))
    return [point.receive_point(base, *each) for each in zip(values, made, strict=True)]


def test_points_that_another_machine_makes_are_the_same(write):
    paths = [write(SWEEP), write(RANDOM.format(9, 1, ""), "random.yaml")]
    here, there = plan(paths).points, plan(paths, make=points_elsewhere).points
    assert {each.error is None for each in there} == {True, False}
    for one, other in zip(here, there, strict=True):
        assert replace(other, content=b"") == replace(one, content=b"")
        assert not one.key or other.scenario == one.scenario


def test_points_that_name_files_are_made_where_the_files_are(write, tmp_path):
    (tmp_path / "a.csv").write_text("value\n1\n2\n")
    path = write(
        "{parameters: {disturbance.jitter: {values: [{kind: none}, {kind: histogram, file: a.csv}, "
        "{kind: histogram, file: b.csv}]}}}"
    )
    requested = []

    def make(base, values):
        requested.extend(point.make_elsewhere(point.pack((point.surroundings(), base, values))))
        return points_elsewhere(base, values)

    with pytest.raises(ScenarioError, match=r"b\.csv: cannot be read"):
        plan([path], make=make)
    assert [each is None for each in requested] == [False, True, True]
    single = "{parameters: {disturbance.jitter.file: {values: [a.csv]}}}"
    text = path.read_text().partition("sweep:")[0].replace("lognormal, sigma: 0.05", "histogram")
    (valid,) = plan([write(single, text=text)], make=make).points
    assert requested[3:] == [None]
    (tmp_path / "a.csv").unlink()
    assert valid.scenario.disturbance.jitter.histogram().values == (1, 2)


def test_points_are_made_here_where_another_machine_has_other_code_or_hardware(
    write, tmp_path, monkeypatch
):
    (tmp_path / "own" / "gpus").mkdir(parents=True)
    (tmp_path / "own" / "gpus" / "mine.yaml").write_text("name: mine")
    here = point.surroundings()
    monkeypatch.setenv("DPSIM_CATALOGUE", str(tmp_path / "own"))
    base = point.base_of(load_yaml(write()), [])
    assert point.make_elsewhere(point.pack((here, base, [()]))) == [None]
    assert point.make_elsewhere(point.pack((point.surroundings(), base, [()]))) != [None]


def test_varied_fields_are_named_by_their_last_word_where_that_says_which():
    paths = [
        "cluster.nodes",
        "run.seed",
        "name",
        "disturbance.slow[0].factor",
        "strategy.sync.kind",
        "strategy.overlap.kind",
        "x.workers",
    ]
    assert varied_names(paths) == {
        "cluster.nodes": "nodes",
        "disturbance.slow[0].factor": "factor",
        "strategy.sync.kind": "strategy.sync.kind",
        "strategy.overlap.kind": "strategy.overlap.kind",
        "x.workers": "x.workers",
    }
