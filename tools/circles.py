"""Find import cycles: ``python -m tools.circles`` prints each, and exits with 1 if there is one.

Imports for types only, and those inside functions, count as well: a reader of one file of a cycle
must read all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import grimp
import networkx as nx

TOP_LEVEL = ("dpsim", "validate", "app", "tools")


def circles(imports: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the modules of each cycle, sorted; ``imports`` are pairs of importer and imported."""
    found = nx.strongly_connected_components(nx.DiGraph(imports))
    return sorted(sorted(modules) for modules in found if len(modules) > 1)


def _imports() -> Iterable[tuple[str, str]]:
    graph = grimp.build_graph(*TOP_LEVEL, cache_dir=None)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            yield module, imported


def main() -> int:
    """Print all import cycles of the project, and return the exit code."""
    found = circles(_imports())
    for modules in found:
        sys.stdout.write(f"circle of imports: {', '.join(modules)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
