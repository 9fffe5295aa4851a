"""What every other room may use.

Errors, configuration models, units, registries, files and their limits. It knows none of them.

Each module is a door of its own, so that a command loads what it needs.
"""

__all__: list[str] = []
