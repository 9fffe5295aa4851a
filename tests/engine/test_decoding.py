"""How many payloads a worker decodes, and how many bytes its memory moves for that.

One message of 500,000 elements: all layers of `tiny`, whose GPU moves 3e15 bytes a second.
"""

import pytest

from dpsim.engine import prepare

ELEMENTS = 500_000
# int8 in buckets of 500: a byte an element and 4 for each scale. The mean is written as float32.
INT8 = {"kind": "int8", "bucket": 500}
PAYLOAD, MEAN = ELEMENTS + 4 * ELEMENTS // 500, 4 * ELEMENTS
WORKERS = pytest.mark.parametrize("workers", [2, 3, 5])


def bytes_decoded(tiny, workers, compression, **aggregation):
    job = prepare(tiny(workers, aggregation=aggregation, compression=compression))
    (message,) = job.calls(0)
    (seconds,) = message.decode
    return seconds * 3e15


@WORKERS
def test_gathered_payloads_are_decoded_one_of_each_worker(tiny, workers):
    moved = bytes_decoded(tiny, workers, INT8, kind="allreduce")
    assert moved == pytest.approx(workers * PAYLOAD + MEAN)


@WORKERS
def test_a_sum_is_decoded_once(tiny, workers):
    """Half precision in, single precision out."""
    moved = bytes_decoded(tiny, workers, "cast", kind="allreduce")
    assert moved == pytest.approx(2 * ELEMENTS + MEAN)


@WORKERS
def test_servers_decode_what_is_pushed_and_a_worker_nothing(tiny, workers):
    assert bytes_decoded(tiny, workers, INT8, kind="parameter-server") == 0


@WORKERS
def test_a_compressed_pull_is_decoded_once(tiny, workers):
    moved = bytes_decoded(tiny, workers, INT8, kind="parameter-server", compress_pull=True)
    assert moved == pytest.approx(PAYLOAD + MEAN)


def test_of_gossip_one_payload_of_each_neighbour_is_decoded(tiny):
    """On a ring of five there are two."""
    moved = bytes_decoded(tiny, 5, INT8, kind="gossip", graph="ring")
    assert moved == pytest.approx(2 * PAYLOAD + MEAN)
