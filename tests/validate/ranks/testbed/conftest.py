"""Patterns of traffic that take half as long as those of the command."""

from importlib import import_module

import pytest


@pytest.fixture(autouse=True)
def short_patterns(monkeypatch):
    """Of 0.12 s a burst's free bytes are 2 %, and bounds are ten times as loose."""
    module = import_module("validate.ranks.testbed.check")
    monkeypatch.setattr(module, "_SECONDS", 0.12)
