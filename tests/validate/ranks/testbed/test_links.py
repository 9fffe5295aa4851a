"""Real TCP on the testbed takes the time that the rates say; bounds are loose, since other work
shares the machine.
"""

from pathlib import Path

import pytest

from validate.ranks import testbed

pytestmark = pytest.mark.testbed

TWO_RACKS = Path(__file__).with_name("two-racks.yaml")
LOOSE = 0.25


def measured(config):
    with testbed.Testbed(config) as up:
        return {row.pattern: row for row in testbed.check(up, repeats=2)}


def ratios(rows):
    return {name: row.ratio for name, row in rows.items()}


def test_links_have_their_rates_both_ways_and_incast_shares_one():
    rows = measured(testbed.TestbedConfig(hosts=4, rate="100 Mbit/s"))
    assert ratios(rows) == pytest.approx(
        dict.fromkeys(["flow", "exchange", "incast"], 1), rel=LOOSE
    )
    # In bytes a second of all flows: one link's rate for a flow, twice that both ways, and once for
    # three into one.
    throughput = {name: row.bytes / row.measured_s / 12.5e6 for name, row in rows.items()}
    assert throughput == pytest.approx({"flow": 1, "exchange": 2, "incast": 1}, rel=LOOSE)


def test_hosts_may_have_different_rates():
    config = testbed.TestbedConfig(hosts=3, rate=["100 Mbit/s", "50 Mbit/s", "200 Mbit/s"])
    rows = measured(config)
    assert ratios(rows) == pytest.approx(dict.fromkeys(rows, 1), rel=LOOSE)
    throughput = [
        rows[f"link {host}"].bytes / 2 / rows[f"link {host}"].measured_s for host in range(3)
    ]
    assert throughput == pytest.approx([12.5e6, 6.25e6, 12.5e6], rel=LOOSE)


def test_the_uplink_between_two_racks_is_shared():
    rows = measured(testbed.load_testbed(TWO_RACKS))
    assert ratios(rows) == pytest.approx(
        dict.fromkeys(["flow", "exchange", "incast", "uplink"], 1), rel=LOOSE
    )
    rate = {name: row.bytes / row.measured_s for name, row in rows.items()}
    assert rate["flow"] == pytest.approx(25e6, rel=LOOSE)  # within the rack
    assert rate["uplink"] == pytest.approx(12.5e6, rel=LOOSE)  # both hosts of the rack together


def test_three_racks_meet_in_the_middle():
    racks = {"racks": [[0], [1], [2]], "uplink": "50 Mbit/s"}
    rows = measured(testbed.TestbedConfig(hosts=3, rate="100 Mbit/s", racks=racks))
    assert ratios(rows) == pytest.approx(dict.fromkeys(rows, 1), rel=LOOSE)
    assert rows["flow"].bytes / rows["flow"].measured_s == pytest.approx(6.25e6, rel=LOOSE)


def test_ranks_of_one_host_send_packets_of_the_links_size():
    """Larger ones do not fit into the send buffer.

    Each would wait for a delayed acknowledgement, 40 ms.
    """
    from validate.ranks.launch import launch

    with testbed.Testbed(testbed.TestbedConfig(hosts=2)) as up:
        ranks = launch(["cat", "/sys/class/net/lo/mtu"], up.hosts, timeout_s=20).ranks
    assert [rank.stdout.strip() for rank in ranks] == ["9000"] * 2
