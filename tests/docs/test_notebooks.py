"""The notebooks run from their first cell to their last."""

import os
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
OURS = {"first-steps", "llm-on-h100", "calibrating"}


def test_all_are_there_and_linked():
    assert {*NOTEBOOKS} == OURS
    page = (ROOT / "docs" / "python.md").read_text()
    assert all(f"notebooks/{name}.ipynb" in page for name in NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_kept_without_outputs(name):
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    assert not [cell for cell in book.cells if cell.get("outputs")]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_its_cells_run_one_after_the_other(name, monkeypatch):
    """As a script; that they show something is seen in a kernel."""
    monkeypatch.chdir(FOLDER)
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cells = [cell.source for cell in book.cells if cell.cell_type == "code"]
    exec("\n".join(cells), {"__name__": "__main__"})


# The kernel's libraries warn of their own ways to run a loop of events.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.wide
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_in_a_kernel_of_its_own(name, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert len(shown) >= sum(cell.cell_type == "code" for cell in book.cells) - 2
