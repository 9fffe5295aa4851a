"""Limiters and messages on them, with times that can be worked out on paper."""

import pytest

from dpsim.hardware import Transport
from dpsim.network.transport.rate_limits import (
    EventQueue,
    LinkMessage,
    RateLimitedLinks,
    RateLimiter,
)

RATE = 1e6  # B/s


def times(messages, limiters, *, window=1e9, queue=1e9, buffer=0.0, stall=0.0, contention=0.0):
    """When each of ``messages`` (start, path, bytes) was handed over, and when it had come."""
    clock = EventQueue()
    transport = Transport(
        window=window, queue=queue, buffer=buffer, stall=stall, contention=contention
    )
    links = RateLimitedLinks(clock, limiters, transport)
    handed, done = {}, {}

    def start(number, path, nbytes):
        LinkMessage(
            links,
            path,
            nbytes,
            lambda: handed.__setitem__(number, clock.now),
            lambda: done.__setitem__(number, clock.now),
            lambda piece, then: then(),
        ).send_more()

    for number, (at, *message) in enumerate(messages):
        clock.at(at, lambda number=number, message=message: start(number, *message))
    clock.run()
    return [(handed[number], done[number]) for number in range(len(messages))]


def came(messages, *arguments, **options):
    return [done for _, done in times(messages, *arguments, **options)]


@pytest.mark.parametrize(("burst", "seconds"), [(0.0, 1.0), (0.25, 0.75), (2.0, 0.0)])
def test_a_limiter_passes_what_it_saved_up_at_once_and_then_its_rate(burst, seconds):
    assert came([(0, (0,), 1e6)], [RateLimiter(RATE, burst)]) == [pytest.approx(seconds)]


def test_what_is_missing_at_the_start_is_not_free():
    assert came([(0, (0,), 1e6)], [RateLimiter(RATE, 0.25, missing=0.2)]) == [pytest.approx(0.95)]


def test_a_pause_is_made_up_for_as_far_as_the_bucket_goes():
    messages = [(0, (0,), 1e6), (1.1, (0,), 1e6), (3.0, (0,), 1e6)]
    ends = came(messages, [RateLimiter(RATE, 0.25, missing=0.25)])
    assert ends == [pytest.approx(1.0), pytest.approx(2.0), pytest.approx(3.75)]


def test_pieces_cut_through_so_that_two_links_take_no_longer_than_one():
    assert came([(0, (0, 1), 1e6)], [RateLimiter(RATE, 0.0), RateLimiter(RATE, 0.0)]) == [
        pytest.approx(1.0)
    ]


def test_the_slowest_link_rules():
    assert came([(0, (0, 1), 1e6)], [RateLimiter(RATE, 0.0), RateLimiter(RATE / 4, 0.0)]) == [
        pytest.approx(4.0)
    ]


def test_two_messages_into_one_link_take_twice_as_long():
    messages = [(0, (0, 2), 1e6), (0, (1, 2), 1e6)]
    ends = came(messages, [RateLimiter(RATE, 0.0) for _ in range(3)], window=64e3)
    assert max(ends) == pytest.approx(2.0)
    assert min(ends) > 1.9, "they share it fairly"


def test_a_later_message_waits_behind_the_window_of_an_earlier_one():
    messages = [(0, (0,), 1e6), (0.1, (0,), 100)]
    assert came(messages, [RateLimiter(RATE, 0.0)], window=200e3)[1] == pytest.approx(
        0.1 + 0.2, abs=0.04
    )


def test_a_send_is_handed_over_when_the_buffer_holds_the_rest():
    ((handed, done),) = times([(0, (0,), 1e6)], [RateLimiter(RATE, 0.0)], window=1e5, buffer=250e3)
    assert done == pytest.approx(1.0)
    assert handed == pytest.approx(0.75, abs=0.04)


def test_each_full_limiter_slows_all_down():
    once = came([(0, (0,), 1e6)], [RateLimiter(RATE, 0.0)], stall=0.1, window=1e5)[0]
    twice = came(
        [(0, (0,), 1e6), (0, (1,), 1e6)],
        [RateLimiter(RATE, 0.0), RateLimiter(RATE, 0.0)],
        stall=0.1,
        window=1e5,
    )
    assert once == pytest.approx(1.1, abs=0.02)
    assert max(twice) == pytest.approx(1.2, abs=0.02)
    assert came([(0, (0,), 1e6)], [RateLimiter(RATE, 0.0)], contention=1e-7, window=1e5)[
        0
    ] == pytest.approx(1.1, abs=0.02)
