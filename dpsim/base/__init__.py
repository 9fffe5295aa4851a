"""Basics for all packages: errors, configuration, units, registries, files, limits.

It uses no other package of dpsim. Its modules are imported one by one, so that a command loads only
what it needs.
"""

__all__: list[str] = []
