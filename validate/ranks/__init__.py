"""Real processes: how they are started, joined, and given hosts with known links.

Nothing is exported here: `validate.ranks.processes` loads torch, and a process that is launched,
or sets up a testbed, should not wait for that.
"""

__all__: list[str] = []
