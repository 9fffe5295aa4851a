"""Puts this folder where tests in the folders below find ``warm`` and ``under_torchrun``."""

import importlib
from pathlib import Path

import pytest

# The launcher's own tests start what it starts.
COLD = Path(__file__).parent / "ranks"


@pytest.fixture(scope="session")
def wide(request):
    """Whether cases are selected that `make test` leaves out: ranks then carry out all of them."""
    return any(item.get_closest_marker("wide") for item in request.session.items)


@pytest.fixture(scope="session")
def warm():
    from warm import WarmProcess

    process = WarmProcess()
    yield process
    process.close()


@pytest.fixture(scope="session")
def under_torchrun(tmp_path_factory):
    from under_torchrun import started

    return started(tmp_path_factory.mktemp("torchrun"))


@pytest.fixture(scope="module", autouse=True)
def forked_from_one(request):
    """Ranks of all tests are forks of one process, which has imported torch once."""
    if COLD in request.path.parents:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        forked = importlib.import_module("validate.ranks.launch.forked")
        patch.setattr(forked, "subprocess", request.getfixturevalue("warm"))
        yield
