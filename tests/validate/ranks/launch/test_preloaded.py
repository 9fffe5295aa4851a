"""What ranks have imported before they are forked leaves nothing behind that a fork would break."""

import sys

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.skipif(sys.platform != "linux", reason="forks are only for Linux")
def test_it_starts_no_thread_and_asks_nothing_of_a_gpu(warm):
    """As the process has seen of which the ranks of other tests are forks."""
    reported = warm.imported()
    wanted = {"validate.emulate.ranks", "validate.node.run", "validate.training.proof"}
    assert wanted < {*reported["modules"]}
    assert reported["threads"] == 1
    assert reported["requested"] == []
