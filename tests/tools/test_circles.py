"""Circles of imports are found; the project itself has none (`make lint`)."""

from tools.circles import circles


def test_modules_that_reach_one_another_are_a_circle():
    imports = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f"), ("f", "e")]
    assert circles(imports) == [["a", "b", "c"], ["e", "f"]]


def test_a_chain_is_none():
    assert circles([("a", "b"), ("b", "c"), ("a", "c")]) == []
