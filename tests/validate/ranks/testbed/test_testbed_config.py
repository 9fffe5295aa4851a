"""What a testbed's description may say; needs no testbed."""

from pathlib import Path

import pytest

from dpsim.base.errors import ScenarioError
from validate.ranks import testbed
from validate.ranks.testbed.check import nominal_s
from validate.ranks.testbed.wiring import limiter

TWO_RACKS = Path(__file__).with_name("two-racks.yaml")


def test_a_testbed_with_nothing_but_its_name_has_four_hosts():
    config = testbed.TestbedConfig()
    assert config.rates == (12.5e6,) * 4
    assert config.switches == ((0, 1, 2, 3),)


def test_a_file_describes_two_racks():
    config = testbed.load_testbed(TWO_RACKS)
    assert config.rates == (25e6,) * 4
    assert config.switches == ((0, 1), (2, 3))
    assert config.racks.uplink == 12.5e6


@pytest.mark.parametrize("rate", ["100 Mbit/s", ["100 Mbit/s", "50 Mbit/s"]])
def test_a_description_reads_back_from_its_json(rate):
    config = testbed.TestbedConfig(
        hosts=2, rate=rate, racks={"racks": [[0], [1]], "uplink": "10 Mbit/s"}
    )
    assert testbed.TestbedConfig.model_validate_json(config.model_dump_json()) == config


BAD = {
    "hosts: 0": "file.yaml:1:8: hosts: must be at least 1, but got 0",
    "rate: 5 kbit/s": "file.yaml:1:7: rate: must be from 1 Mbit/s to 10 Gbit/s, but got 5 kbit/s",
    "rate: [1 Mbit/s, 1 Mbit/s]": "rate must be one for all or one for each of 4 hosts, but got 2",
    "racks: {racks: [[0, 1], [2]]}": "racks must name each host from 0 to 3 once, but host 3 is named 0 times",
    "racks: {racks: [[0, 1], [1, 2, 3]]}": "racks must name each host from 0 to 3 once, but host 1 is named 2 times",
    "racks: {racks: [[0, 1], [2, 3, 4]]}": "racks must name each host from 0 to 3 once, but host 4 is named 1 times",
    "racks: {uplink: 20 Gbit/s}": "file.yaml:1:17: racks.uplink: must be from 1 Mbit/s to 10 Gbit/s, but got 20 Gbit/s",
    "rat: 5 Mbit/s": "rat: ",
}


@pytest.mark.parametrize("text", BAD)
def test_an_invalid_file_is_reported_with_its_place(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file.yaml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        testbed.load_testbed("file.yaml")
    assert BAD[text] in str(caught.value)


@pytest.mark.parametrize(("megabits", "kibibytes"), [(50, 16), (100, 32), (200, 64), (400, 128)])
def test_bursts_are_those_that_were_found_best(megabits, kibibytes):
    assert testbed.burst_bytes(megabits * 1e6 / 8) == kibibytes * 1024


def test_a_burst_holds_a_frame():
    assert testbed.burst_bytes(1.25e6) == 9014
    assert testbed.burst_bytes(1.25e6, mtu=1500) == 3277


@pytest.mark.parametrize(("mtu", "fraction"), [(9000, 0.9927), (1500, 0.956)])
def test_headers_take_their_part(mtu, fraction):
    assert testbed.goodput_fraction(mtu) == pytest.approx(fraction, abs=5e-4)


def test_the_limiter_counts_in_bits():
    assert (
        limiter("eth0", 12.5e6, 9000)
        == "qdisc add dev eth0 root tbf rate 100000000bit burst 32768 latency 2000ms"
    )


def test_the_nominal_time_is_the_busiest_links():
    size, goodput = 2**20, testbed.goodput_fraction()
    flat = testbed.TestbedConfig(hosts=3, rate=["100 Mbit/s", "50 Mbit/s", "100 Mbit/s"])
    assert nominal_s(flat, [(0, 2, size)]) == pytest.approx((size - 32768) / (12.5e6 * goodput))
    assert nominal_s(flat, [(0, 1, size), (1, 0, size)]) == pytest.approx(
        (size - 16384) / (6.25e6 * goodput)
    )
    assert nominal_s(flat, [(1, 0, size), (2, 0, size)]) == pytest.approx(
        (size - 16384) / (6.25e6 * goodput)
    )
    racks = testbed.load_testbed(TWO_RACKS)
    across = [(0, 2, size), (1, 3, size)]
    assert nominal_s(racks, across) == pytest.approx((2 * size - 32768) / (12.5e6 * goodput))
    assert nominal_s(racks, [(0, 1, size)]) == pytest.approx((size - 65536) / (25e6 * goodput))
