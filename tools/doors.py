"""Package boundaries: a package's modules are private to it.

An import from outside names the package, and uses what its ``__init__`` exports. In a package
without exports (``__all__`` is empty) every module is public. ``python -m tools.doors`` prints
every import of a private module, and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP_LEVEL = ("dpsim", "validate", "app", "tools")


@dataclass(frozen=True)
class Module:
    """A Python file: its dotted name, its syntax tree, whether it is a package's ``__init__``."""

    name: str
    path: Path
    tree: ast.Module
    is_package: bool

    @property
    def package(self) -> str:
        """The package that contains the module, or the package itself."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def exports(self) -> bool:
        """Whether it exports names in ``__all__``."""
        # Parsed, not imported: a module may need torch, or do work.
        for node in self.tree.body:
            if isinstance(node, ast.Assign):
                target = node.targets[0]
            elif isinstance(node, ast.AnnAssign):
                target = node.target
            else:
                continue
            if isinstance(target, ast.Name) and target.id == "__all__" and node.value:
                return bool(ast.literal_eval(node.value))
        return False


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Return all modules of the project below ``root``, by their dotted names."""
    found = {}
    for top in TOP_LEVEL:
        for path in sorted((root / top).rglob("*.py")):
            inside = path.relative_to(root)
            parts = inside.with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found[name] = Module(name, inside, tree, is_package)
    return found


def imported(module: Module, known: dict[str, Module]) -> Iterator[tuple[int, str]]:
    """Yield each module of the project that ``module`` imports, with the line."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            # A package's export may have the name of one of its modules: the export takes
            # precedence.
            if known[node.module].exports:
                inside = []
            submodules = [name for name in inside if name in known]
            yield from ((node.lineno, name) for name in submodules or [node.module])


def reaching_past(known: dict[str, Module]) -> Iterator[str]:
    """Yield a line for each import of a private module."""
    for module in known.values():
        for line, name in imported(module, known):
            target = known[name]
            if target.is_package or target.package in TOP_LEVEL:
                continue
            door = known.get(target.package)
            if door is None or not door.exports:
                continue
            # With the dots, or dpsim.network would count as inside of dpsim.net.
            if not f"{module.package}.".startswith(f"{target.package}."):
                yield (
                    f"{module.path}:{line}: {name} is private to {target.package}: "
                    "import it from there"
                )


def main() -> None:
    """Print the imports of private modules; exit with 1 if there are any."""
    found = list(reaching_past(modules()))
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
