"""What NCCL's inspector logs of a job becomes a calibration profile."""

import json

import pytest
from imported import DATA

from dpsim.base.errors import DpsimError
from dpsim.hardware.calibration import load_profile
from dpsim.imports.nccl_inspector import read_inspector
from dpsim.imports.nccl_tests_fit import fit_nccl_tests

FILE = DATA / "nccl-inspector.log"
US = 1e-6


def record(rank=0, number=0, size=1024, micros=10, coll="AllReduce", ranks=8, nodes=1, comm="0x1"):
    """One line of a log."""
    return json.dumps(
        {
            "header": {"id": comm, "rank": rank, "n_ranks": ranks, "nnodes": nodes},
            "metadata": {"hostname": "h", "pid": 1},
            "coll_perf": {
                "coll": coll,
                "coll_sn": number,
                "coll_msg_size_bytes": size,
                "coll_exec_time_us": micros,
            },
        }
    )


@pytest.fixture
def written(tmp_path):
    """A file of records."""

    def write(*records, name="a.log"):
        (tmp_path / name).write_text("\n".join(records) + "\n")
        return tmp_path / name

    return write


def times(log):
    return {row.bytes: row.time_s for row in log.table.rows}


def test_the_rank_that_came_last_tells_a_collective_s_time(written):
    file = written(record(rank=0, micros=90), record(rank=1, micros=30), record(rank=2, micros=50))
    assert times(read_inspector(file)) == {1024: pytest.approx(30 * US)}


def test_a_size_has_the_median_of_its_collectives(written):
    calls = [record(number=number, micros=micros) for number, micros in enumerate((7, 900, 9))]
    assert times(read_inspector(written(*calls))) == {1024: pytest.approx(9 * US)}


@pytest.mark.parametrize(
    ("coll", "operation", "nbytes"),
    [
        ("AllReduce", "all-reduce", 1000),
        ("ReduceScatter", "reduce-scatter", 8000),
        ("AllGather", "all-gather", 8000),
        ("Broadcast", "broadcast", 1000),
        ("Reduce", "reduce", 1000),
    ],
)
def test_sizes_are_those_of_the_whole_vector(written, coll, operation, nbytes):
    """The plugin's own rates, such as those of its README, are of the same bytes."""
    table = read_inspector(written(record(size=1000, coll=coll))).table
    assert (table.operation, table.rows[0].bytes) == (operation, nbytes)


def test_rates_are_those_that_the_plugin_prints():
    """Example of the plugin's README: 2 GiB to each of 8 ranks in 41,057 us."""
    rows = [json.loads(line) for line in FILE.read_text().splitlines()]
    said = {
        row["coll_perf"]["coll_msg_size_bytes"]: row["coll_perf"]["coll_busbw_gbs"]
        for row in rows
        if row.get("coll_perf", {}).get("coll") == "ReduceScatter"
    }
    found = read_inspector(FILE, "reduce-scatter").table.rows
    assert {row.bytes // 8: row.busbw_Bps / 1e9 for row in found} == pytest.approx(said, rel=1e-4)


def test_constants_that_made_the_times_are_found():
    # 20 us, and 100 GB/s on the bus; calls of a size differ by 1 us.
    log = read_inspector(FILE)
    assert (log.calls, log.table.ranks, log.table.hosts) == (10, 8, 1)
    found = fit_nccl_tests(log.table, "job").parameters
    assert found["alpha"].value == pytest.approx(20.5 * US, rel=0.05)
    assert found["busbw"].value == pytest.approx(100e9, rel=0.01)


def test_of_several_kinds_the_one_that_took_most_time_counts(written):
    file = written(
        record(micros=5), record(micros=50, ranks=16, nodes=2), record(micros=20, coll="AllGather")
    )
    log = read_inspector(file)
    assert (log.table.ranks, log.table.hosts) == (16, 2)
    assert sum(note.startswith("ignored: 1 of") for note in log.notes) == 2
    assert read_inspector(file, "all-gather").table.operation == "all-gather"
    assert read_inspector(file, ranks=8).table.operation == "all-gather"


def test_a_folder_holds_the_logs_of_all_processes(written):
    written(record(rank=0, micros=90), name="h-pid1.log")
    written(record(rank=1, micros=30), name="h-pid2.log")
    log = read_inspector(written(record(), name="notes.txt").parent)
    assert times(log) == {1024: pytest.approx(30 * US)}
    assert log.notes == ()


def test_one_rank_alone_is_said_to_hold_its_waiting(written):
    notes = read_inspector(written(record())).notes
    assert notes[0].startswith(
        "assumed: the times of 100 % of the collectives, which one rank alone logged,"
    )


def test_records_over_several_lines_and_of_other_things_are_read(written):
    spread = json.dumps(json.loads(record()), indent=2)
    log = read_inspector(written(spread, '{"header": {}, "dump_stats": {}}', record(rank=1)))
    assert log.calls == 1
    assert log.notes == ("ignored: 1 records of other operations, of no bytes or of no duration",)


def test_a_record_that_a_killed_job_left_unfinished_is_left_out(written):
    file = written(record(), record(number=1))
    file.write_text(file.read_text()[:-30])
    log = read_inspector(file)
    assert log.calls == 1
    assert log.notes[-1] == "ignored: the last record of 1 files, which was not written out"


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (["{", record()], "a.log:1: must be JSON objects"),
        ([record(), "nothing", record()], "a.log:2: must be JSON objects"),
        ([record(), "5"], "a.log:2: must be an object with header and coll_perf"),
        ([record(ranks=0)], "a.log:1: n_ranks: must be a whole number from 1 on, but got 0"),
        ([record(), record(micros=-1)], "a.log:2: coll_exec_time_us: must be a number from 0"),
        ([record(size=True)], "a.log:1: coll_msg_size_bytes: must be a whole number"),
        ([record(coll=5)], "a.log:1: coll_perf.coll: must be a name"),
        (['{"dump_stats": {}}'], "a.log: must have records with coll_perf"),
    ],
)
def test_a_log_that_cannot_be_used_says_where(written, lines, rule):
    with pytest.raises(DpsimError, match=rule):
        read_inspector(written(*lines))


@pytest.mark.parametrize("asked", [{"operation": "broadcast"}, {"ranks": 4}])
def test_a_kind_that_was_not_logged_is_refused_with_those_that_were(asked):
    with pytest.raises(DpsimError, match="but has all-reduce of 8 ranks on 1 node, reduce-"):
        read_inspector(FILE, **asked)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DpsimError, match="must hold 1 to 4,096 files"):
        read_inspector(tmp_path)


def test_the_command_writes_a_profile_that_scenarios_take(dpsim, tmp_path):
    profile = tmp_path / "p.json"
    code, out, err = dpsim("import", "nccl-inspector", FILE, "-o", profile)
    assert (code, out) == (0, "")
    assert "10 collectives of 5 sizes" in err
    found = load_profile(profile)
    assert (found.name, found.kind) == (FILE.stem, "nccl-tests")


def test_too_few_sizes_are_one_line(dpsim):
    code, _, err = dpsim("import", "nccl-inspector", FILE, "--operation", "reduce-scatter")
    assert code == 2
    assert f"{FILE}: the table must have at least 4 sizes" in err
