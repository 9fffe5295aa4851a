"""What was skipped, counted by reason in the last line, and kept for a run of only these tests.

The tests (of a file that was skipped whole, the file) stand in .pytest_cache/skipped:
``pytest @.pytest_cache/skipped`` runs them where more is installed. In CI it is a failure that
something is not installed.
"""

import os
import re
from collections import Counter

import pytest

FILE = ".pytest_cache/skipped"


def by_reason(reports):
    """Reports of skipped tests in one line, the most frequent reason first."""
    counts = Counter(reason_of(report) for report in reports)
    parts = (f"{reason} ({count})" for reason, count in counts.most_common())
    return f"skipped {counts.total()}: {', '.join(parts)}"


def reason_of(report):
    """Why, without what helps."""
    _, _, message = report.longrepr
    message = re.sub(r"could not import '(\w+)'.*", r"\1 is not installed", message)
    return re.split(r": | \(", message.removeprefix("Skipped: "))[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    """Say it after all else, in the process that reports."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = terminal.stats.get("skipped", []) if terminal else []
    lacking = any("is not installed" in reason_of(report) for report in skipped)
    if lacking and os.environ.get("CI") == "true":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield
    if skipped and not session.config.option.collectonly:
        file = session.config.rootpath / FILE
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{report.nodeid}\n" for report in skipped))
        terminal.write_line(by_reason(skipped))
