"""What every room may use: errors, configuration, units, registries, files, limits.

It knows no other room. Each module is a door of its own, so that a command loads what it needs.
"""

__all__: list[str] = []
