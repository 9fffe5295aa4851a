"""Measured steps that are uploaded: shown against predictions, and every answer goes on by them."""

import json

import pytest
from app_pages import charts, metrics, settled

from app.reading import scenario
from app.spec import Spec
from app.uploads import MOST_ROWS, calibrate_to_upload
from dpsim.base.errors import DpsimError
from dpsim.engine import simulate

SMALL = """
name: mine
cluster: {nodes: 4, node: aws-g4dn, network: {fabric: single-switch}}
workload: {model: resnet18-cifar, batch_per_gpu: 512, software: reference}
run: {steps: 2, warmup: 0}
"""
SPEC = Spec(text=SMALL, file="mine.yaml")
HEAD = "cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms,held_out\n"
STEPS = HEAD + "1,1,64,48,\n1,1,512,250,\n1,4,256,170,\n2,4,256,260,\n4,4,256,300,yes\n"


def fitted(text, spec=SPEC):
    return calibrate_to_upload("steps.csv", text.encode(), spec, lambda done, total: None)


def test_a_table_gives_a_calibration_of_the_scenario():
    answer, profile = fitted(STEPS)
    assert [row["measured_ms"] for row in answer["rows"]] == [48, 250, 170, 260]
    (row,) = answer["held_out"]["rows"]
    by_it = SPEC.with_value("calibration", profile)
    result = simulate(scenario(by_it.with_value("workload.batch_per_gpu", "256")))
    assert result.step_time_s["mean"] * 1e3 == pytest.approx(row["predicted_ms"])
    assert json.loads(profile)["kind"] == "steps"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "steps.csv: must not be empty"),
        ("a,b\n", "steps.csv:2: must have at least 1 row"),
        ("log\nrun.log\n", "steps.csv:2: log: must be left out here: state step_time_ms"),
        (
            "workload.model,step_time_ms\n{torch: 'os:getcwd'},5\n",
            "steps.csv:2: .*must be a model of the catalogue here, but got a torch factory",
        ),
        (
            "workload.model,step_time_ms\n{config: /etc/passwd},5\n",
            "steps.csv:2: .*must not name a file here",
        ),
        ("calibration,step_time_ms\nother.json,5\n", "steps.csv:2: .*must not name a file here"),
        ("step_time_ms\n" + "5\n" * (MOST_ROWS + 1), "steps.csv: must have at most 64 rows"),
    ],
)
def test_an_invalid_table_is_refused_with_line_and_reason(text, message):
    with pytest.raises(DpsimError, match=message) as error:
        fitted(text)
    assert "/tmp" not in str(error.value)


def test_an_uploaded_calibration_is_used_for_all_answers(open_page):
    page = open_page("what_if", preset="resnet50-32-v100-25gbe", set=["run.steps=2"])
    before = metrics(page)
    assert "Your measured steps" in [each.label for each in page.expander]
    page.session_state["measured steps"] = True
    page.run()
    table = (
        "cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms\n"
        "1,1,32,200\n1,1,64,380\n1,4,64,400\n2,4,64,600\n"
    )
    shown = charts(page)
    page.file_uploader(key="steps").set_value(("steps.csv", table.encode(), "text/csv")).run()
    settled(page)
    assert not page.exception
    assert not page.error
    assert charts(page) == shown + 1
    assert list(page.dataframe[-1].value["measured"])[:2] == ["200 ms", "380 ms"]
    (use,) = [each for each in page.button if each.label == "predict by this calibration"]
    use.click().run()
    settled(page)
    assert not page.exception
    assert not page.error
    after = metrics(page)
    assert after["step time"][0] != before["step time"][0]
    assert any("use a calibration to 4 measured runs" in each.value for each in page.markdown)
    assert "calibration=" in "".join(page.query_params["set"])
    (without,) = [each for each in page.button if each.label == "stop using it"]
    without.click().run()
    settled(page)
    assert metrics(page)["step time"][0] == before["step time"][0]
