import pytest
from imported import DATA


@pytest.fixture
def data():
    """The bytes of a file in data/."""
    return lambda name: (DATA / name).read_bytes()
