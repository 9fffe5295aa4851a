"""Outputs replace what they should and nothing else, and leave nothing behind."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from dpsim.base.errors import DpsimError
from dpsim.base.files import files_read, read_limited
from dpsim.base.terminal import write_whole


def test_a_file_is_replaced_and_its_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("target")
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "made")
    write_whole(dangling, "there")
    assert (tmp_path / "made").read_text() == "there"
    assert {path.name for path in tmp_path.iterdir()} == {"target", "link", "dangling", "made"}


def test_a_device_stays_a_device(tmp_path):
    device = "/dev/null"
    before = os.stat(device)
    link = tmp_path / "nowhere"
    link.symlink_to(device)
    write_whole(link, "x")
    assert stat.S_ISCHR(os.stat(device).st_mode)
    assert os.stat(device).st_rdev == before.st_rdev


def test_a_pipe_is_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, "through")
    reader.join()
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "pipe"])
def test_stdout_by_its_name_is_stdout(is_file, tmp_path):
    code = (
        "from pathlib import Path; from dpsim.base.terminal import write_whole; print('first');"
        "write_whole(Path('/dev/stdout'), 'second\\n'); print('third')"
    )
    command = [sys.executable, "-c", code]
    if is_file:
        with (tmp_path / "out").open("w") as out:
            subprocess.run(command, stdout=out, check=True, timeout=60)
        printed = (tmp_path / "out").read_text()
    else:
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    assert printed == "first\nsecond\nthird\n"


def test_what_was_read_is_not_written_over(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("kept")
    (tmp_path / "link").symlink_to(path)
    noting = files_read.set(set())
    read_limited(path, 10)
    for name in ("scenario.yaml", "link"):
        with pytest.raises(DpsimError, match=r"must not be a file that is read, but is one$"):
            write_whole(tmp_path / name, "lost")
    files_read.reset(noting)
    assert path.read_text() == "kept"
    write_whole(path, "a later command may")
    assert path.read_text() == "a later command may"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 300, "cannot be written: File name too long$"),
        ("a\0b", "must be a file's name$"),
        ("none/x", "the folder .* must exist, but does not$"),
        ("folder", "must be a file, but is a folder$"),
        ("file/x", "the folder .* must exist, but does not$"),
        ("loop", "cannot be written: Too many levels of symbolic links$"),
    ],
)
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(name, message, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DpsimError, match=message) as caught:
        write_whole(tmp_path / name, "text")
    assert len(str(caught.value)) < 500
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file", "loop"}


def test_the_longest_name_that_a_folder_takes_can_be_written(tmp_path):
    write_whole(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text() == "text"


def test_text_that_is_no_unicode_is_spelled_out(tmp_path):
    write_whole(tmp_path / "f", "caf\udce9")
    assert (tmp_path / "f").read_text() == "caf\\udce9"


def test_ctrl_c_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "f", "text")
    assert not list(tmp_path.iterdir())


def test_the_rights_of_a_new_file_follow_the_mask(tmp_path):
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "f", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
