"""The tables of quoted numbers in docs/accuracy.md are what dpsim says now."""

from functools import cache
from pathlib import Path

from tools.quoted_numbers import quoted, table

ACCURACY = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text()


@cache
def rows(part):
    return [*quoted(part)]


def test_the_page_says_what_is_predicted_now():
    for part in ("numbers", "threads"):
        assert table(part, rows(part)) in ACCURACY, "python -m tools.quoted_numbers"


def test_eleven_of_twelve_numbers_lie_inside_their_intervals():
    assert len(rows("numbers")) == 12
    outside = [row.entry["what"] for row in rows("numbers") if not row.is_inside]
    assert outside == ["BERT-large, 512 tokens, AMP, 8 A100"]


def test_a_wrong_number_in_a_thread_is_reported():
    outside = [row.entry["thread"] for row in rows("threads") if row.is_inside is False]
    assert outside == ["pytorch 36298", "llm-foundry 336", "fairseq 789"]
