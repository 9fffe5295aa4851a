"""Pages on scenarios: fields, strategies and disturbances, and networks."""

from __future__ import annotations

from collections.abc import Iterator

from dpsim.scenario import Scenario, shape_of
from tools.reference_pages.fields import Part, sections
from tools.reference_pages.markdown import page

_STRATEGIES, _NETWORKS = "strategies.md", "networks.md"
_ELSEWHERE = {"strategy": _STRATEGIES, "disturbance": _STRATEGIES, "cluster.network": _NETWORKS}
_MODELS = "the scenario's pydantic models"

_OF_FIELDS = """\
A scenario is one YAML file. Quantities are text with a unit (`25 Gbit/s`, `1.5 us`, `100 MiB`; \
k, M, G, T are powers of 1000,
Ki, Mi, Gi, Ti of 1024, b is a bit, B a byte); 0 needs none. Keys that are not known are errors. \
`--set path=value` replaces any
of them: `--set strategy.sync.kind=ssp`. `dpsim schema` prints the same as a JSON Schema for \
editors.
"""
_OF_STRATEGIES = """\
How gradients are aggregated (`aggregation`), when (`sync`), what overlaps with computing \
(`overlap`), how payloads are compressed (`compression`),
and what makes steps vary (`disturbance`). Every kind runs with nothing but its \
name. Which of them go together:
[combinations](../combinations.md). The models behind them: [explanations](../explanation/).
"""
_OF_NETWORKS = """\
What joins the nodes: `cluster.network`. The inside of a node is part of [its entry in the \
catalogue](hardware.md). How routes
are found and links shared: [topology and routing](../explanation/topology.md).
"""


def scenario_page() -> str:
    """Return the page of every field of a scenario, except those with separate pages."""
    return page(
        "Scenario fields",
        _MODELS,
        [*_OF_FIELDS.splitlines(), "", *sections(Part("", shape_of(Scenario)), _ELSEWHERE)],
    )


def strategies_page() -> str:
    """Return the page of strategies and disturbances."""
    return page(
        "Strategies and disturbances",
        _MODELS,
        [*_OF_STRATEGIES.splitlines(), "", *_at("strategy"), *_at("disturbance")],
    )


def networks_page() -> str:
    """Return the page of network fabrics."""
    return page("Networks", _MODELS, [*_OF_NETWORKS.splitlines(), "", *_at("cluster.network")])


def _at(path: str) -> Iterator[str]:
    shape = shape_of(Scenario)
    for key in path.split("."):
        shape = shape.below(key)
    return sections(Part(path, shape))
