"""Builds a testbed: a namespace for each host and one for the switches, links, and their limits.

The switches are bridges in a namespace of their own, so that no firewall or network manager of
this machine sees them, and nothing is left when the namespaces are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsim.topology import TestbedConfig
from validate.ranks.testbed.iproute2 import batch, run

INTERFACE = "eth0"  # each host's link, seen from the host
_ETHERNET = 14  # bytes before the IP packet, which the limiter counts too

# Measured at 50, 100, 200 and 400 Mbit/s (16, 32, 64, 128 KiB): larger bursts pass bytes for
# nothing, smaller ones lose tokens.
_BURST_S = 16 * 1024 / (50e6 / 8)

# The limiter's queue: long enough that TCP's window is full before a packet is dropped.
_LATENCY = "2000ms"

# bbr drops packets here and shares unfairly; cached metrics and large receive windows make runs
# differ, and so do send buffers that the kernel enlarges now and then: a send is done when all is
# buffered, and a rank would begin its next round before its message has arrived.
_SETTINGS = {
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_no_metrics_save": "1",
    "ipv4/tcp_rmem": "4096 131072 262144",
    "ipv4/tcp_wmem": "4096 65536 65536",
}


def build(config: TestbedConfig, prefix: str) -> None:
    """Set up everything; names of namespaces begin with ``prefix``.

    Raises TestbedError, and leaves what it has built.
    """
    switch = f"{prefix}switch"
    hosts = [f"{prefix}host{number}" for number in range(config.hosts)]
    for name in (switch, *hosts):
        run("network namespaces", ["ip", "netns", "add", name])
    batch("bridges", "ip", switch, _bridges(config))
    batch("veth links", "ip", switch, _links(config, hosts))
    batch("the limiter tbf", "tc", switch, _switch_limits(config))
    for number, name in enumerate(hosts):
        run("the settings of TCP", ["ip", "netns", "exec", name, "sh", "-e"], _settings())
        batch("IP addresses", "ip", name, _addresses(number, config.mtu))
        batch("the limiter tbf", "tc", name, [limiter(INTERFACE, config.rates[number], config.mtu)])


def address(host: int) -> str:
    """Return the IP address of a host."""
    return f"10.77.0.{host + 1}"


def _bridges(config: TestbedConfig) -> Iterator[str]:
    bridges = [f"rack{rack}" for rack in range(len(config.switches))]
    if _has_core(config):
        bridges.append("core")
    for bridge in bridges:
        yield f"link add {bridge} type bridge stp_state 0 mcast_snooping 0"
        yield f"link set {bridge} up"


def _links(config: TestbedConfig, hosts: list[str]) -> Iterator[str]:
    mtu = f"mtu {config.mtu}"
    for rack, members in enumerate(config.switches):
        for host in members:
            peer = f"peer name {INTERFACE} {mtu} netns {hosts[host]}"
            yield f"link add host{host} {mtu} type veth {peer}"
            yield f"link set host{host} master rack{rack} up"
    above = "core" if _has_core(config) else "rack1"
    for rack, (near, far) in enumerate(_uplinks(config)):
        yield f"link add {near} {mtu} type veth peer name {far} {mtu}"
        yield f"link set {near} master rack{rack} up"
        yield f"link set {far} master {above} up"


def _has_core(config: TestbedConfig) -> bool:
    return len(config.switches) > 2


def _uplinks(config: TestbedConfig) -> list[tuple[str, str]]:
    """Return the two ends of each uplink; two racks are joined by one link."""
    racks = len(config.switches)
    uplinks = racks if _has_core(config) else racks - 1
    return [(f"up{rack}", f"down{rack}") for rack in range(uplinks)]


def _switch_limits(config: TestbedConfig) -> Iterator[str]:
    # A limiter acts on traffic that leaves a device. Traffic to a host leaves the switch's end of
    # its link; traffic from it is limited at its own end.
    for host, rate in enumerate(config.rates):
        yield limiter(f"host{host}", rate, config.mtu)
    for near, far in _uplinks(config):
        assert config.racks
        yield limiter(near, config.racks.uplink, config.mtu)
        yield limiter(far, config.racks.uplink, config.mtu)


def _settings() -> str:
    """Return a shell script that sets TCP's parameters, and turns IPv6 off.

    Neighbour discovery of IPv6 would share the links.
    """
    lines = [f"echo {value} > /proc/sys/net/{name}\n" for name, value in _SETTINGS.items()]
    off = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
    return "".join([*lines, f"if [ -e {off} ]; then echo 1 > {off}; fi\n"])


def _addresses(host: int, mtu: int) -> Iterator[str]:
    # Loopback's default packets of 64 KiB exceed the send buffer: two ranks of a host would wait 40
    # ms for each, until TCP's delayed acknowledgement.
    yield f"link set lo mtu {mtu} up"
    yield f"addr add {address(host)}/24 dev {INTERFACE}"
    yield f"link set {INTERFACE} up"


def burst_bytes(rate: float, mtu: int = 9000) -> int:
    """Bytes that pass a limiter at once after a pause; ``rate`` in B/s.

    At least one frame, which must fit into the bucket. This many bytes of a message after a pause
    take no time: T = latency + max(0, S - burst) / (goodput fraction x rate).
    """
    return max(round(rate * _BURST_S), mtu + _ETHERNET)


def limiter(device: str, rate: float, mtu: int) -> str:
    """The line of ``tc -batch`` that limits the outgoing traffic of ``device``."""
    bucket = f"rate {round(rate * 8)}bit burst {burst_bytes(rate, mtu)} latency {_LATENCY}"
    return f"qdisc add dev {device} root tbf {bucket}"
