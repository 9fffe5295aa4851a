"""The page of classic questions: every one of them, and models of which no task is known."""

import pytest
from app_pages import charts, html

QUESTIONS = {
    "how large a batch?": 4,
    "how many GPUs?": 3,
    "how many learners?": 1,
    "a growing batch?": 0,
    "what was measured?": 2,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_answered(open_page, question):
    page = open_page("questions", choices={"question": question})
    assert not page.exception
    assert not page.error
    assert charts(page) == QUESTIONS[question]


def test_a_growing_batch_has_fewer_updates(open_page):
    page = open_page("questions", choices={"question": "a growing batch?", "factor": "4"})
    shown = page.dataframe[0].value
    assert list(shown["global batch"]) == ["2,048", "8,192", "32,768", "131,072"]
    assert "in all instead of" in html(page)


def test_without_a_task_only_utilisation_is_shown(open_page):
    page = open_page("questions", preset="llama3-8b-8-h100-fsdp")
    assert not page.exception
    assert charts(page) == 1
    assert "not known for this model" in page.info[0].value


def test_published_errors_of_small_batches_are_shown(open_page):
    page = open_page("questions", choices={"question": "what was measured?"})
    assert "6.8 to 9.0 % from 128 to 1,024 (rate 0.1)" in html(page)
    assert "7.1 to 7.3 % from 128 to 512 (in proportion, with warm-up)" in html(page)
    records = page.dataframe[0].value
    assert next(iter(records["time (min)"])) == 1740  # a number, by which rows are sorted
    assert "34K-68K" in list(records["global batch"])
