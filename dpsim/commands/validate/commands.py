"""``dpsim validate``: the group of its commands."""

from __future__ import annotations

from dpsim.commands.help import Commands

validate_app = Commands(
    "Compare predictions with measurements. On a GPU node run doctor first, then node, then run.",
    homes={
        "backends": "dpsim.commands.validate.backends:backends",
        "calibrate": "dpsim.commands.validate.calibrate:calibrate",
        "compare": "dpsim.commands.validate.compare:compare",
        "doctor": "dpsim.commands.validate.doctor:doctor",
        "microbench": "dpsim.commands.validate.microbench:microbench",
        "node": "dpsim.commands.validate.node:node",
        "reference": "dpsim.commands.validate.reference:reference",
        "run": "dpsim.commands.validate.run:run",
        "train": "dpsim.commands.validate.train:train",
        "testbed": "dpsim.commands.validate.testbed:run_on_testbed",
    },
)
