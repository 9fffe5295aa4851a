"""The folders of sweeps on the page that compares: filters and the front."""

import re

import pytest
from app_pages import charts, html

from dpsim.studies.sweep import sweep

SWEEP = {"compare": "a sweep"}
BATCH = """name: batch
cluster: {nodes: 1, node: single-gpu, network: {fabric: single-switch, nic: 10GbE}}
workload: {model: resnet18, batch_per_gpu: 8}
run: {steps: 2, warmup: 0}
sweep: {method: grid, parameters: {cluster.nodes: {values: [1, 2, 4]}, workload.batch_per_gpu: {values: [8, 16]}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("batch")
    (place / "batch.yaml").write_text(BATCH)
    sweep([place / "batch.yaml"], place / "results", workers=1)
    return str(place / "results")


def test_without_a_folder_it_says_how_to_make_one(open_page):
    assert "dpsim sweep" in open_page("compare", choices=SWEEP).info[0].value


def test_a_folder_without_results_is_an_error(open_page, tmp_path):
    page = open_page("compare", choices={**SWEEP, "folder": str(tmp_path)})
    assert str(tmp_path) in page.error[0].value
    assert not page.exception


def test_columns_are_plotted_and_rows_filtered(open_page, folder):
    page = open_page(
        "compare",
        choices={
            **SWEEP,
            "folder": folder,
            "colour": "batch_per_gpu",
            "front": "least across, least up",
        },
    )
    assert not page.exception
    assert charts(page) == 1
    assert any("6 rows" in text.value for text in page.caption)
    assert re.search(r'dp-verdict">Point \d \(nodes \d, batch per GPU 16\) is the fast', html(page))
    first = open_page("compare", choices={**SWEEP, "folder": folder})
    assert first.selectbox(key="choice colour").value == "nodes"
    filtered = open_page(
        "compare", choices={**SWEEP, "folder": folder, "filters": "nodes", "only-nodes": "2,4"}
    )
    assert any("4 rows" in text.value for text in filtered.caption)


def test_downloaded_cells_are_no_formulas(open_page, tmp_path):
    (tmp_path / "batch.yaml").write_text(
        BATCH.replace("cluster.nodes: {values: [1, 2, 4]}", "name: {values: ['=1+1', plain]}")
    )
    sweep([tmp_path / "batch.yaml"], tmp_path / "results", workers=1)
    page = open_page("compare", choices={**SWEEP, "folder": str(tmp_path / "results")})
    cells = page.dataframe[0].value.astype(str).to_numpy().ravel().tolist()
    assert {"'=1+1", "plain"} <= set(cells)
    assert "=1+1" not in cells
