"""One thread, as on the ranks, so that sums have the same order and tests do not fight for cores."""

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
