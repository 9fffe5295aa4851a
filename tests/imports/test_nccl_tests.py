"""Logs of nccl-tests: what is read, what is fitted, what is refused."""

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.hardware.calibration import CalibrationProfile, load_profile
from dpsim.imports.nccl_tests import NcclTestsLog, TableRow, parse_nccl_tests
from dpsim.imports.nccl_tests_fit import fit_nccl_tests
from dpsim.imports.reading import ImportFileError

HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
RANKS = "\n".join(
    f"#  Rank {i:2d} Group  0 Pid {100 + i} on node{i // 2} device {i} [0x07] NVIDIA H100"
    for i in range(4)
)
ROW = "1048576 262144 float sum -1 100.0 10.49 15.73 0 101.0 10.38 15.57 0"


def text(*lines, ranks=RANKS, program="# Collective test starting: all_reduce_perf"):
    return "\n".join([program, ranks, *lines]).encode()


def made(alpha, busbw, floor=0.0, ranks=8, sizes=tuple(2**e for e in range(10, 31))):
    """A log whose times follow the formula exactly."""
    factor = 2 * (ranks - 1) / ranks
    times = [max(floor, alpha + size * factor / busbw) for size in sizes]
    rows = tuple(
        TableRow(size, t, size * factor / t, None, 0) for size, t in zip(sizes, times, strict=True)
    )
    return NcclTestsLog("all-reduce", ranks, 1, ("X",), rows, "", 0)


def test_a_log_of_two_nodes_is_read(data):
    log = parse_nccl_tests(data("all-reduce-2x8-a100.log"))
    assert (log.operation, log.ranks, log.hosts, log.devices) == (
        "all-reduce",
        16,
        2,
        ("NVIDIA A100-SXM4-40GB",),
    )
    assert log.nccl_version == "2.18.3+cuda12.2"
    assert len(log.rows) == 31
    assert log.rows[0].bytes == 8
    assert log.rows[-1].bytes == 2**33
    assert log.rows[-1].time_s == pytest.approx(90169e-6)
    assert log.rows[-1].in_place_time_s == pytest.approx(87982e-6)
    assert log.rows[-1].busbw_Bps == pytest.approx(178.62e9)


def test_an_old_log_without_a_root_or_the_programs_name_is_read(data):
    log = parse_nccl_tests(data("all-reduce-4-v100-old.log"))
    assert (log.operation, log.ranks, log.hosts) == ("all-reduce", 4, 1)
    assert [row.bytes for row in log.rows] == [2**e for e in range(20, 28)]


def test_prefixes_of_mpirun_and_srun_are_taken_off(data):
    plain = data("all-reduce-2x8-a100.log")
    want = parse_nccl_tests(plain)
    for prefix in (b"[1,0]<stdout>:", b"0: "):
        tagged = b"\n".join(prefix + line for line in plain.split(b"\n"))
        assert parse_nccl_tests(tagged) == want


@pytest.mark.parametrize(
    ("redop", "root", "factor", "operation"),
    [
        ("sum", -1, 1.5, "all-reduce"),
        ("sum", -1, 0.75, "reduce-scatter"),
        ("none", 0, 1.0, "broadcast"),
        ("sum", 0, 1.0, "reduce"),
    ],
)
def test_the_operation_follows_from_columns_and_rates(redop, root, factor, operation):
    row = (
        f"1048576 262144 float {redop} {root} 100.0 10.49 {10.48576 * factor:.2f} 0 N/A N/A N/A N/A"
    )
    log = parse_nccl_tests(text(HEADER, row, program=""))
    assert log.operation == operation
    assert log.rows[0].in_place_time_s is None


def test_wrong_values_are_read():
    end = ("# Out of bounds values : 3 FAILED", "# Avg bus bandwidth    : 41.5")
    assert parse_nccl_tests(text(HEADER, ROW, *end)).wrong_values == 3


NO_NAME = "1048576 262144 float none -1 100.0 10.49 7.87 0 101.0 10.38 7.79 0"
BAD = {
    "no table": (text("hello"), "must have the table of an nccl-tests program"),
    "no rows": (text(HEADER), "line 6: the table must have rows of sizes above 0, but has none"),
    "cut row": (
        text(HEADER, ROW, ROW.rsplit(" ", 3)[0]),
        "line 8: the row must have the 13 columns of the header in line 6, but has 10",
    ),
    "more columns": (
        text(HEADER, ROW + " 7"),
        "line 7: the row must have the 13 columns .* but has 14",
    ),
    "no number": (
        text(HEADER, ROW.replace("100.0", "1OO.0")),
        "line 7: must be a number, but got '1OO.0'",
    ),
    "negative": (
        text(HEADER, ROW.replace("100.0", "-1.0")),
        "line 7: must be a number, but got '-1.0'",
    ),
    "zero time": (
        text(HEADER, ROW.replace("100.0", "0.0")),
        "line 7: the row must have a time of at least 1e-06 us",
    ),
    "no ranks": (text(HEADER, ROW, ranks=""), "must list its ranks .*--ranks"),
    "ranks twice": (
        text(HEADER, ROW, ranks=RANKS + "\n" + RANKS),
        "line 6: must be the log of one run, but rank 0 is listed a second",
    ),
    "rank missing": (
        text(HEADER, ROW, ranks=RANKS.split("\n", 1)[1]),
        "must list every rank, but has no rank 0",
    ),
    "which": (text(HEADER, NO_NAME, program=""), "must name its program .*--operation"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_log_gets_one_clear_error(case):
    content, message = BAD[case]
    with pytest.raises(ImportFileError, match=message):
        parse_nccl_tests(content)


def test_values_missing_in_a_log_can_be_given():
    log = parse_nccl_tests(text(HEADER, NO_NAME, program="", ranks=""), "all-gather", 4)
    assert (log.operation, log.ranks) == ("all-gather", 4)
    with pytest.raises(
        DpsimError,
        match=r"must be a known operation, but got 'all-redduce'.*did you mean 'all-reduce'",
    ):
        parse_nccl_tests(text(HEADER, ROW), "all-redduce")


# Where standard errors do not matter, whose 200 fits take most of the time of one.
FEW_RESAMPLES = patch("dpsim.imports.nccl_tests_fit._RESAMPLES", 2)


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-6, 1e-4), st.floats(1e9, 4e11))
def test_the_fit_finds_the_line_that_made_the_times(alpha, busbw):
    with FEW_RESAMPLES:
        found = fit_nccl_tests(made(alpha, busbw), "x").parameters
    assert found["alpha"].value == pytest.approx(alpha, rel=1e-3)
    assert found["busbw"].value == pytest.approx(busbw, rel=1e-3)
    assert found["floor"].value == pytest.approx(alpha, rel=1e-3)


@FEW_RESAMPLES
def test_the_fit_finds_a_floor_where_there_is_one():
    found = fit_nccl_tests(made(5e-6, 1e11, floor=40e-6), "x").parameters
    assert found["floor"].value == pytest.approx(40e-6, rel=1e-3)
    assert found["alpha"].value == pytest.approx(5e-6, rel=0.05)
    assert found["busbw"].value == pytest.approx(1e11, rel=1e-3)


@FEW_RESAMPLES
def test_one_wild_row_hardly_moves_the_fit():
    log = made(20e-6, 1e11)
    rows = list(log.rows)
    rows[12] = TableRow(rows[12].bytes, rows[12].time_s * 20, 0.0, None, 0)
    profile = fit_nccl_tests(NcclTestsLog("all-reduce", 8, 1, (), tuple(rows), "", 0), "x")
    assert profile.parameters["busbw"].value == pytest.approx(1e11, rel=0.1)
    assert profile.residuals.worst_ape == pytest.approx(0.95, abs=0.01)
    assert profile.residuals.worst_bytes == rows[12].bytes


def test_standard_errors_follow_the_noise():
    def noisy(sigma):
        log = made(20e-6, 1e11)
        factors = np.exp(sigma * np.random.default_rng(3).standard_normal(len(log.rows)))
        rows = tuple(
            TableRow(r.bytes, r.time_s * f, 0.0, None, 0)
            for r, f in zip(log.rows, factors, strict=True)
        )
        found = fit_nccl_tests(NcclTestsLog("all-reduce", 8, 1, (), rows, "", 0), "x").parameters[
            "busbw"
        ]
        return found.standard_error / found.value

    assert 5 < noisy(0.05) / noisy(0.005) < 20


@FEW_RESAMPLES
def test_a_profile_says_what_it_was_fitted_on_and_comes_back_from_its_file(data, tmp_path):
    profile = fit_nccl_tests(parse_nccl_tests(data("all-reduce-2x8-a100.log")), "a100", "all.log")
    assert profile.residuals.counted_on == "fitted rows"
    assert profile.residuals.n == len(profile.measured.sizes_bytes) == 31
    assert profile.parameters["busbw"].value == pytest.approx(178e9, rel=0.05)
    (tmp_path / "p.json").write_text(profile.to_json())
    assert load_profile(tmp_path / "p.json") == profile
    again = fit_nccl_tests(parse_nccl_tests(data("all-reduce-2x8-a100.log")), "a100", "all.log")
    assert again.model_copy(update={"provenance": {}}) == profile.model_copy(
        update={"provenance": {}}
    )


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            made(1e-5, 1e9, sizes=(8, 16, 32)),
            "at least 4 sizes to fit alpha, floor and busbw, but has 3",
        ),
        (made(1e-5, 1e9, ranks=1), "moves nothing over a bus: at least 2 ranks"),
    ],
)
def test_too_little_to_fit_is_an_error(log, message):
    with pytest.raises(ImportFileError, match=message):
        fit_nccl_tests(log, "x")


def test_a_file_that_is_no_profile_is_an_error_with_the_field(tmp_path):
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(DpsimError, match=r"p.json: name: is missing"):
        load_profile(tmp_path / "p.json")
    with pytest.raises(DpsimError, match="cannot be read: No such file"):
        load_profile(tmp_path / "none.json")
    content = json.loads(fit_nccl_tests(made(1e-5, 1e10), "x").to_json())
    content["measured"]["times_s"].pop()
    with pytest.raises(ValueError, match="must have a time for each of 21 sizes, but has 20"):
        CalibrationProfile.model_validate(content)


class TestJson:
    """What ``-J`` writes: a report as src/util.cu of nccl-tests lays it out, changed in one place."""

    @pytest.fixture
    def report(self, data):
        return json.loads(data("all-reduce-2x8-a100.json"))

    def read(self, report, **given):
        return parse_nccl_tests(json.dumps(report).encode(), **given)

    def test_it_says_what_the_printed_log_says(self, data):
        printed = parse_nccl_tests(data("all-reduce-2x8-a100.log"))
        written = parse_nccl_tests(data("all-reduce-2x8-a100.json"))
        for name in ("operation", "ranks", "hosts", "devices", "wrong_values"):
            assert getattr(written, name) == getattr(printed, name)
        for mine, other in zip(written.rows, printed.rows, strict=True):
            assert mine.bytes == other.bytes
            assert mine.time_s == pytest.approx(other.time_s)
            assert mine.in_place_time_s == pytest.approx(other.in_place_time_s)
            assert mine.busbw_Bps == pytest.approx(other.busbw_Bps, rel=0.02, abs=2e7)

    def test_a_process_with_several_gpus_has_as_many_ranks(self, report):
        """Without MPI only its first device is listed."""
        report["config"] |= {"ngpus": 8, "devices": report["config"]["devices"][:1]}
        assert (self.read(report).ranks, self.read(report).hosts) == (8, 1)

    def test_the_operation_follows_from_the_rates_where_no_program_is_named(self, report):
        report["args"] = ["perf"]
        assert self.read(report).operation == "all-reduce"
        assert self.read(report, operation="all-gather").operation == "all-gather"

    def test_what_was_not_measured_in_place_is_left_out(self, report):
        report["results"] = [row | {"in_place": None} for row in report["results"]]
        log = self.read(report)
        assert {row.in_place_time_s for row in log.rows} == {None}

    @pytest.mark.parametrize(
        ("broken", "message"),
        [
            (lambda report: report.pop("results"), "results: is missing"),
            (lambda report: report["config"].update(devices=[]), "config.devices: "),
            (lambda report: report["results"][3].update(size=-1), "results.3.size: "),
            (
                lambda report: report["results"][3]["out_of_place"].update(time="nan"),
                "results.3.out_of_place.time: ",
            ),
            (
                lambda report: report["results"][3].update(out_of_place=None),
                "results.3.out_of_place: must be measured, but is null",
            ),
            (lambda report: report.update(results=[]), "results: must have rows of sizes above 0"),
            (lambda report: report.update(version=9), "version: "),
        ],
    )
    def test_what_is_broken_is_named_by_its_place(self, report, broken, message):
        broken(report)
        with pytest.raises(ImportFileError) as caught:
            self.read(report)
        assert str(caught.value).startswith(message)

    def test_a_file_that_ends_in_the_middle_is_no_such_report(self, data):
        with pytest.raises(ImportFileError, match="must be the JSON of an nccl-tests program, but"):
            parse_nccl_tests(data("all-reduce-2x8-a100.json")[:-200])

    def test_the_command_makes_a_profile_of_it(self, dpsim, tmp_path):
        file = tmp_path / "profile.json"
        code, _, _ = dpsim(
            "import", "nccl-tests", "tests/imports/data/all-reduce-2x8-a100.json", "-o", file
        )
        assert code == 0
        assert load_profile(file).measured.ranks == 16


def test_a_time_that_no_clock_shows_is_a_slip(dpsim, tmp_path):
    log = (Path(__file__).parent / "data" / "all-reduce-2x8-a100.log").read_text()
    row = next(line for line in log.splitlines() if line.split()[:1] == ["1048576"])
    size, count, kind, op, root, *rest = row.split()
    spoiled = " ".join((size, count, kind, op, root, "1e-320", *rest[1:]))
    path = tmp_path / "x.log"
    path.write_text(log.replace(row, spoiled))
    code, _, err = dpsim("import", "nccl-tests", path, "-o", tmp_path / "p.json")
    assert code == 2
    assert "must have a time of at least 1e-06 us and a bandwidth, but got '1e-320'" in err
