"""Real processes: how they are started, joined, and given hosts with known links.

Nothing is exported here: `validate.ranks.processes` loads torch, which would delay processes that
are launched or set up a testbed.
"""

__all__: list[str] = []
