"""The dashboard: a router, the pages in `app.pages_`, one per file, and their shared code.

The simulation and the figures come from dpsim.
"""

__all__: list[str] = []
