"""Files that users name are read up to a limit."""

import os
import threading

import pytest

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_limited, read_text_limited


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_limited(path, 5) == b"12345"
    with pytest.raises(DpsimError, match=r"f: must be at most 4 bytes, but got 5$"):
        read_limited(path, 4)


def test_a_device_without_an_end_is_read_no_further_than_the_limit():
    with pytest.raises(
        DpsimError, match=r"^/dev/zero: must be at most 3,000,000 bytes, but got more$"
    ):
        read_limited("/dev/zero", 3_000_000)


def test_a_pipe_gives_what_is_written_to_it(tmp_path):
    os.mkfifo(tmp_path / "p")
    writer = threading.Thread(target=(tmp_path / "p").write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert len(read_limited(tmp_path / "p", 200_000)) == 100_000
    writer.join()


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "No such file"), (".", "Is a directory"), ("a\0b", "a file's name")],
)
def test_what_is_no_file(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DpsimError, match=message):
        read_limited(name, 5)


def test_a_long_name_is_cut_in_the_message():
    with pytest.raises(DpsimError, match=r"^x{197}\.\.\.: cannot be read: File name too long$"):
        read_limited("x" * 5000, 5)


def test_text_is_utf_8_with_or_without_a_mark(tmp_path):
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfa\xc3\xa9")
    assert read_text_limited(tmp_path / "f", 99) == "aé"
    (tmp_path / "f").write_bytes(b"a\xe9")
    with pytest.raises(DpsimError, match="f: must be text in UTF-8, but got the byte 0xe9"):
        read_text_limited(tmp_path / "f", 99)
