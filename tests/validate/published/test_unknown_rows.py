"""Rows of clusters, models and GPUs that no fit has seen, and rows that no model explains."""

import pytest
from step_rows import DATA, TABLES, lines, one_cluster, written

from validate.published import compare_steps


def cluster_rows(growth):
    """One model on one GPU and on two, at two batches; 50 ms of network, and more by the batch."""
    own = {"1": 0.0, "2": 50.0}
    steps = {
        (gpus, batch): 100.0 * batch + own[gpus] + (growth * batch if gpus == "2" else 0.0)
        for gpus in own
        for batch in (1, 4)
    }
    row = lines("adaptdl", one_cluster)[0]
    return [
        {
            **row,
            "placement": gpus,
            "gpus": gpus,
            "nodes": "1",
            "local_bsz": str(batch),
            "step_time_ms": str(step),
        }
        for (gpus, batch), step in steps.items()
    ]


@pytest.mark.parametrize(("growth", "apart"), [(0.0, False), (100.0, False), (200.0, True)])
def test_series_that_no_network_explains_stand_apart_and_say_so(growth, apart, tmp_path):
    path = written(tmp_path / "series.csv", cluster_rows(growth))
    result = compare_steps(path, "adaptdl", fit_on=[path])
    reasons = [row.to_json()["reason"] for row in result.apart]
    assert len(reasons) == (2 if apart else 0)
    assert all("no network does that" in reason for reason in reasons)
    assert set(result.to_json()["apart_by_reason"]) == set(reasons)


@pytest.mark.wide
def test_rows_of_a_cluster_that_is_described_as_weak_stand_apart_for_that():
    weak = lines("adaptdl", lambda row: row["cluster"].startswith("azure"))[0]["cluster"]
    result = compare_steps(DATA / TABLES["adaptdl"], "adaptdl")
    for row in result.apart:
        assert row.identity["cluster"] == weak
        assert row.reason.startswith("described as WEAK") or "no network" in row.reason


def of_vtrain(**changed):
    row = lines("vtrain", lambda row: (row["hidden_size"], row["layers"]) == ("2048", "24"))[0]
    return {**row, **{name: str(value) for name, value in changed.items()}}


def predicted(kind, path):
    return [row.predicted for row in compare_steps(path, kind).counted]


def test_activations_without_room_are_computed_again(tmp_path):
    """Twice the batch takes twice the time while all fits, and a third of the layers more then."""
    common = {"gpus": 2, "data_parallelism": 2, "sequence_length": 2048, "layers": 24}
    sizes = [(2, 4), (4, 8), (8, 16)]  # the last needs 118 GB
    rows = [of_vtrain(**common, micro_batch=b, global_batch=g) for b, g in sizes]
    small, middle, large = predicted("vtrain", written(tmp_path / "a.csv", rows))
    assert 1.7 < middle / small < 2.0
    assert 2.3 < large / middle < 2.0 * 4 / 3


def test_several_nodes_reduce_at_the_pace_of_their_cards(tmp_path):
    common = {"micro_batch": 8, "layers": 24}
    rows = [
        of_vtrain(**common, gpus=n, data_parallelism=n, global_batch=8 * n) for n in (8, 16, 64)
    ]
    eight, sixteen, sixty_four = predicted("vtrain", written(tmp_path / "a.csv", rows))
    parameters = 12 * 2048**2 * 24 + 50257 * 2048
    on_cards = 2 * 2 * parameters / 100e9
    assert on_cards * 0.4 < sixteen - eight < on_cards
    assert sixty_four == pytest.approx(sixteen, rel=0.02)


def test_a_model_with_small_rows_only_is_predicted_above(tmp_path):
    rows = lines(
        "adaptdl", lambda row: one_cluster(row) and row["model"] in ("cifar10", "imagenet")
    )
    large = [row for row in rows if row["model"] == "imagenet" and int(row["gpus"]) > 4]
    fit_on = written(tmp_path / "public.csv", [row for row in rows if row not in large])
    result = compare_steps(written(tmp_path / "blind.csv", large), "adaptdl", fit_on=[fit_on])
    assert result.left_out is None
    assert result.constants == {"fitted on --fit-on": len(large)}
    assert result.overall["n"] == len(large)
    assert result.overall["mean_ape"] < 0.06


def test_an_unknown_cluster_is_calibrated_on_its_one_gpu_rows(tmp_path):
    rows = [
        {**row, "cluster": "new"}
        for row in lines("adaptdl", lambda row: one_cluster(row) and row["model"] == "imagenet")
    ]
    result = compare_steps(written(tmp_path / "new.csv", rows), "adaptdl")
    assert {row.identity["gpus"] for row in result.fitted} == {"1"}
    assert {row.identity["gpus"] for row in result.counted} == {row["gpus"] for row in rows} - {"1"}
    assert any("'new' is in no fitted row" in note for note in result.notes)


def test_an_unknown_model_without_rows_to_calibrate_on_is_listed(tmp_path):
    row = next(row for row in lines("adaptdl", one_cluster) if row["gpus"] == "8")
    result = compare_steps(
        written(tmp_path / "new.csv", [{**row, "model": "unheard_of"}]), "adaptdl"
    )
    assert result.overall is None
    assert result.not_predicted == [(2, "no row of model 'unheard_of' to calibrate its compute on")]


def test_an_unknown_cluster_without_one_gpu_rows_takes_compute_by_peak(tmp_path):
    row = next(row for row in lines("adaptdl", one_cluster) if row["gpus"] == "8")
    result = compare_steps(written(tmp_path / "new.csv", [{**row, "cluster": "new"}]), "adaptdl")
    assert result.overall["n"] == 1
    assert any("fp32 peaks" in note for note in result.notes)


def test_tensor_parallel_rows_are_listed(tmp_path):
    row = lines("vtrain")[0]
    result = compare_steps(
        written(tmp_path / "new.csv", [{**row, "tensor_parallelism": "2"}, row]), "vtrain"
    )
    assert result.not_predicted == [(2, "tensor or pipeline parallelism")]
    assert len(result.counted) == 1


def test_an_unknown_system_scales_with_the_usual_share(tmp_path):
    rows = [
        {**row, "system": "new", "case_id": "new"}
        for row in lines("scaling", lambda row: row["case_id"] == "tf_dgx1p100_synth_resnet50")
    ]
    result = compare_steps(written(tmp_path / "new.csv", rows), "scaling")
    assert result.left_out is None
    assert [row.identity["gpus"] for row in result.fitted] == ["1.0"]
    assert len(result.counted) == len(rows) - 1
    assert any("'new' is in no fitted row" in note for note in result.notes)


def alone_by_steps_of_several(tmp_path, exposed_ms):
    """Seconds on one GPU that steps of 100 ms on 2 to 4 hosts, so much of them exposed, tell."""
    row = lines("adaptdl", one_cluster)[0] | {"model": "made_up", "local_bsz": "8"}
    rows = [
        row
        | {"placement": "1" * nodes, "nodes": str(nodes), "gpus": str(nodes)}
        | {"step_time_ms": "100", "exposed_sync_ms": str(exposed_ms)}
        for nodes in (2, 3, 4)
    ]
    known = written(tmp_path / f"known-{exposed_ms}.csv", rows)
    alone = [row | {"placement": "1", "nodes": "1", "gpus": "1"}]
    result = compare_steps(written(tmp_path / "alone.csv", alone), "adaptdl", fit_on=[known])
    return result.every[0].predicted


def test_exposed_synchronisation_tells_own_work_from_the_network(tmp_path):
    assert alone_by_steps_of_several(tmp_path, 70) == pytest.approx(0.03, rel=0.15)
    assert alone_by_steps_of_several(tmp_path, 30) == pytest.approx(0.07, rel=0.15)
