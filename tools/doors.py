"""Package boundaries: a package's modules are private to it.

An import from outside names the package, and uses what its ``__init__`` exports. In a package
without exports (``__all__`` is empty) every module is public. ``python -m tools.doors`` prints
every import of a private module, and exits with 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
TOP_LEVEL = ("dpsim", "validate", "app", "tools")


def reaching_past(graph: grimp.ImportGraph, root: Path) -> Iterator[str]:
    """Yield a line for each import of a private module; ``root`` holds the top-level packages."""
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            package = imported.rpartition(".")[0]
            if "." not in package or _file(root, imported).name == "__init__.py":
                continue
            # With the dots, or dpsim.network would count as inside of dpsim.net.
            if f"{importer}.".startswith(f"{package}.") or not _exports(_file(root, package)):
                continue
            for found in graph.get_import_details(importer=importer, imported=imported):
                # An export may have the name of a module.
                if not found["line_contents"].startswith(f"from {package} import "):
                    where = f"{_file(root, importer).relative_to(root)}:{found['line_number']}"
                    yield f"{where}: {imported} is private to {package}: import it from there"


def _file(root: Path, module: str) -> Path:
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _exports(init: Path) -> bool:
    """Return whether a package lists names in ``__all__``."""
    # Read the file instead of importing the package, which may need torch.
    text = init.read_text(encoding="utf-8")
    return re.search(r"^__all__.*= \[\s*[^\s\]]", text, re.MULTILINE) is not None


def main() -> None:
    """Print the imports of private modules; exit with 1 if there are any."""
    found = list(reaching_past(grimp.build_graph(*TOP_LEVEL, cache_dir=None), ROOT))
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
