"""Step times are read by the lines that each tool prints, and nothing else is taken for one."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.imports.step_logs import read_step_log


def megatron(every=10, seconds=0.5, first=20.0, start=0, count=10):
    lines = ["training ...", " > number of parameters on rank 0: 1000"]
    for index in range(1, count + 1):
        ms = 1e3 * (first if index == 1 else seconds)
        lines.append(
            f" [2026-03-01 10:00:00] iteration {start + index * every:8d}/    1000 | consumed "
            f"samples: {index * 640:12d} | elapsed time per iteration (ms): {ms:.1f} | learning "
            "rate: 1.5E-04 | global batch size:    64 | lm loss: 9.1E+00 |"
        )
    return lines


def stamp(seconds):
    return f"2026-03-01 10:{int(seconds) // 60:02d}:{seconds % 60:06.3f}".replace(".", ",")


def torchtitan(every=10, seconds=0.25, ranks=(0,), count=10):
    def line(step, at, rank):
        return (
            f"[rank{rank}]:[titan] {stamp(at)} - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss:"
            "  7.1234  memory: 40.00GiB(50.00%)  \x1b[34mtps: 8,123  \x1b[36mmfu: 31.55%\x1b[39m"
        )

    steps = sorted({1, *range(every, count * every + 1, every)})
    # The first step takes 30 s.
    return [line(step, 30 + seconds * (step - 1), rank) for step in steps for rank in ranks]


def deepspeed(seconds=0.8):
    return [
        f"[{stamp(10 + seconds * step)}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, "
        "skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]"
        for step in range(10, 60, 10)
    ]


def composer(rate=4.0, first=100, last=150):
    lines = []
    for batch in range(1, last + 1):
        lines += [f"[batch={batch}/1000]:", f"\t Train time/batch: {batch - 1}"]
        if batch >= first:
            shown = 1.0 if batch < first + 10 else rate
            lines += [f"\t Train throughput/batches_per_sec: {shown:.4f}"]
            lines += [f"\t Train throughput/device/batches_per_sec: {shown / 8:.4f}"]
    return lines


def bar(seconds=0.5, steps=200, name="Epoch 0: ", total=None):
    """A bar whose first ten steps take a second each."""
    parts = []
    for done in range(steps + 1):
        at = int(min(done, 10) + seconds * max(done - 10, 0))
        shown = f"{at // 60:02d}:{at % 60:02d}"
        share = 100 * done // (total or steps)
        parts.append(
            f"{name}{share:3d}%|####      | {done}/{total or steps} [{shown}<00:10,  1.9it/s, "
            "loss=0.223, v_num=7]"
        )
    return ["\r".join(parts)]


@pytest.fixture
def read(tmp_path):
    def read(lines):
        path = tmp_path / "run.log"
        path.write_bytes("\n".join(lines).encode())
        return read_step_log(path)

    return read


@pytest.mark.parametrize(
    ("lines", "tool", "median"),
    [
        (megatron(), "Megatron-LM", 0.5),
        (torchtitan(), "torchtitan", 0.25),
        (torchtitan(ranks=(0, 1)), "torchtitan", 0.25),
        (deepspeed(), "DeepSpeed", 0.8),
        (composer(), "Composer", 0.25),
        (bar(), "a progress bar", 0.5),
        (bar(name=""), "a progress bar", 0.5),
        (bar(name="Steps: "), "a progress bar", 0.5),
        ([*bar(), *bar(name="Epoch 1: ")], "a progress bar", 0.5),
        ([*bar(steps=12, name="Validation DataLoader 0: "), *bar()], "a progress bar", 0.5),
        # DeepSpeed under Megatron prints both.
        ([*deepspeed(), *megatron()], "Megatron-LM", 0.5),
    ],
)
def test_each_tool_tells_its_step(read, lines, tool, median):
    found = read(lines)
    assert found.tool == tool
    assert found.median == pytest.approx(median, rel=0.05)


def test_readings_with_one_of_the_first_ten_steps_are_dropped(read):
    assert read(megatron()).seconds == (0.5,) * 9
    # A run that goes on from a checkpoint warms up as well.
    assert read(megatron(start=5000)).seconds == (0.5,) * 9
    assert read(megatron(every=1, first=0.7, count=30)).seconds == (0.5,) * 20
    assert read(composer()).seconds == (0.25,) * 41


def test_only_logs_of_each_step_tell_how_single_steps_differ(read):
    assert read(megatron(every=1, count=30)).single
    assert read(torchtitan(every=1, count=30)).single
    assert not any(read(lines()).single for lines in (megatron, torchtitan, composer, bar))


def test_a_bar_may_count_passes(read):
    assert read(bar()).counts_passes
    assert not read(megatron()).counts_passes


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["loss 3.2", "loss 3.1"], "must have lines with step times of Megatron-LM, torchtitan"),
        (megatron(count=2, every=5), "at least 10 steps of Megatron-LM after the first 10"),
        (
            [*megatron(), *megatron()],
            "must be the log of one run, but step 10 comes after step 100",
        ),
        (bar(steps=30), "must show a progress bar for at least 20 s after the first 10 steps"),
        ([*bar(), *bar(name="", steps=50)], "has bars of 50, 200 steps"),
        (composer(rate=0.0027), "batches_per_sec must be at least 0.01, but got 0.0027"),
        ([line.replace("-03-", "-13-") for line in deepspeed()], "time stamps must be dates"),
        ([stamp(5) + line[24:] for line in deepspeed()], "must have lines with step times"),
        (["[" + stamp(5) + line[24:] for line in deepspeed()], "must take longer than 0 s"),
        (["\0"], "must be text"),
    ],
)
def test_what_cannot_be_read_is_one_error(read, lines, message):
    with pytest.raises(DpsimError, match=r"run\.log: ") as error:
        read(lines)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def lightning(every=5, seconds=0.5, count=10, first=0):
    """What CSVLogger writes with ThroughputMonitor: rows of other metrics between its own."""
    lines = ["epoch,step,train/batches,train/device/batches_per_sec,train/time,train_loss"]
    for index in range(1, count + 1):
        step = index * every
        # The first step takes 9 s longer, and each step has two passes.
        lines += [f"0,{first + step - 1},{2 * step},,{9 + seconds * step},"]
        lines += [f"0,{first + step - 1},,,,7.25"]
    return lines


@pytest.mark.parametrize("first", [0, 300])
def test_lightnings_csv_logger_tells_the_seconds_between_its_steps(tmp_path, first):
    folder = tmp_path / "version_3"
    folder.mkdir()
    (folder / "hparams.yaml").write_text("lr: 0.1\n")
    (folder / "metrics.csv").write_text("\n".join(lightning(first=first)))
    found = read_step_log(folder)
    # Rows are at steps 4, 9, 14, ...: the first ten steps are those up to 9.
    assert (found.tool, found.seconds, found.single) == ("Lightning", (0.5,) * 8, False)
    assert not found.counts_passes
    (folder / "renamed.csv").write_text("\n".join(lightning(every=1, count=40)))
    assert read_step_log(folder / "renamed.csv").single


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["epoch,step,train_loss", "0,49,7.2"],
            r"metrics.csv: must have the column 'train/time', which Lightning's callback Throughput",
        ),
        (["train/time", "7"], "must have the column 'step'"),
        (["step,train/time", "9,"], "at least 10 steps of Lightning after the first 10, but has 0"),
        (["step,train/time", "9,soon"], "metrics.csv:2: step and train/time must be numbers"),
        ([*lightning(), *lightning()[1:]], "must be the log of one run, but step 5 comes after"),
    ],
)
def test_a_table_of_lightning_that_tells_no_step_is_refused(tmp_path, lines, message):
    (tmp_path / "metrics.csv").write_text("\n".join(lines))
    with pytest.raises(DpsimError, match=message):
        read_step_log(tmp_path)


def test_a_table_of_single_steps_has_them_all(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("step_ms\n" + "250\n" * 20)
    found = read_step_log(path)
    assert (found.seconds, found.single, found.by_rank) == ((0.25,) * 20, True, None)
    # A step ends with its slowest rank.
    path.write_text("rank,node,step_s\n" + "0,0,1\n5,1,2\n" * 20)
    found = read_step_log(path)
    assert found.seconds == (2.0,) * 20
    assert (found.by_rank.ranks, found.by_rank.nodes) == ([0, 5], [0, 1])
    assert found.by_rank.slow_down == pytest.approx(2 / 1.5)


def test_hostile_lines_are_read_in_time(read):
    for line in ("iteration 1/1 | " * 60, "1" * 999, " " * 999, "%" * 999, "1%|" * 300):
        with pytest.raises(DpsimError):
            read([line] * 2000)
