"""Finish times by SimGrid, for `test_against_simgrid`; run by the system's Python, which has the
``simgrid`` package.

Reads JSON from stdin: cases of ``capacities`` (B/s) and ``flows`` of ``links``, ``nbytes``,
``start``, ``latency`` (s); all cases are disjoint parts of one platform. Writes the finish time of
each flow. Network model CM02 (max-min fair) without TCP's corrections: no window limit, no cross
traffic, no bandwidth or latency factors.
"""

import json
import sys

from simgrid import Actor, Engine, Host, LinkInRoute, Mailbox, NetZone, this_actor

OPTIONS = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "maxmin/precision:1e-12",
    "surf/precision:1e-12",
)


def build(cases):
    zone = NetZone.create_full_zone("all")
    for c, case in enumerate(cases):
        links = [
            zone.create_link(f"{c}-{i}", rate).set_latency(0)
            for i, rate in enumerate(case["capacities"])
        ]
        for f, flow in enumerate(case["flows"]):
            ends = [zone.create_host(f"{c}-{f}-{end}", 1e9) for end in ("from", "to")]
            wait = zone.create_link(f"{c}-{f}-latency", 1e15).set_latency(flow["latency"])
            route = [LinkInRoute(link) for link in (wait, *(links[i] for i in flow["links"]))]
            zone.add_route(ends[0].netpoint, ends[1].netpoint, None, None, route, False)
    zone.seal()


def main():
    cases = json.load(sys.stdin)
    engine = Engine(
        ["oracle", *(f"--cfg={option}" for option in OPTIONS), "--log=root.thres:error"]
    )
    build(cases)
    ends = [[0.0] * len(case["flows"]) for case in cases]

    def send(c, f, flow):
        this_actor.sleep_for(flow["start"])
        Mailbox.by_name(f"{c}-{f}").put("x", int(flow["nbytes"]))

    def receive(c, f):
        Mailbox.by_name(f"{c}-{f}").get()
        ends[c][f] = Engine.clock

    for c, case in enumerate(cases):
        for f, flow in enumerate(case["flows"]):
            Actor.create("s", Host.by_name(f"{c}-{f}-from"), send, c, f, flow)
            Actor.create("r", Host.by_name(f"{c}-{f}-to"), receive, c, f)
    engine.run()
    json.dump(ends, sys.stdout)


main()
