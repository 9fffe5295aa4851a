"""The limit of time holds where nothing asks for it: in Python of others, in C, in SQL."""

import time

import pytest

MARGIN = 3  # CPU seconds, to load what a command needs


@pytest.fixture
def seconds(dpsim, monkeypatch):
    """Runs a command with a limit of a second: its seconds, code and error."""

    def run(*words, limit="1"):
        monkeypatch.setenv("DPSIM_TIME_LIMIT", limit)
        begin = time.process_time()
        code, _, err = dpsim(*words)
        return time.process_time() - begin, code, err

    return run


def test_the_nodes_of_a_search_are_not_all_built_first(seconds, tmp_path):
    path = tmp_path / "large.yaml"
    path.write_text(
        "name: large\ncluster: {nodes: 1000000, node: dgx1-v100}\n"
        "workload: {model: resnet50, batch_per_gpu: 1}\n"
    )
    spent, code, err = seconds("tune", path, "--evaluations", 3)
    assert (code, spent < 1 + MARGIN) == (1, True), (spent, err)


def test_sql_ends_at_the_limit(seconds, dpsim, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(
        "name: two\ncluster: {nodes: 1, node: dgx1-v100}\n"
        "workload: {model: resnet50, batch_per_gpu: 1}\n"
        "run: {steps: 2, warmup: 0}\n"
        "sweep: {parameters: {run.seed: {values: [0, 1]}}}\n"
    )
    assert dpsim("sweep", path, "-o", tmp_path / "out", "--workers", 1)[0] == 0
    endless = "select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b"
    spent, code, err = seconds("results", tmp_path / "out", "--sql", endless, "--json")
    assert (code, spent < 1 + MARGIN) == (1, True)
    assert "--sql: takes more than" in err
    # Beyond what a query may hold, which is less than the machine has.
    large = "select count(distinct range) from range(1000000000)"
    _, code, err = seconds("results", tmp_path / "out", "--sql", large, "--json", limit="60")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("dpsim: --sql: Out of Memory")


def test_an_importer_ends_at_the_limit(seconds, tmp_path):
    path = tmp_path / "dense.conf"
    last = "SwitchName=s1999 Nodes=n[0-65535]"
    lines = (f"SwitchName=s{at} Switches=s[{at + 1}-1999]" for at in range(1500, 1999))
    path.write_text("\n".join([*lines, last]))
    spent, code, err = seconds("import", "slurm-topology", path)
    assert (code, spent < 1 + MARGIN) in ((1, True), (2, True)), (spent, err)
    assert err.count("\n") == 1
