"""A stand-in for ``nvidia-smi``: a program of that name, first in the path, with given output."""

import json
import os
import sys

PROGRAM = """#!{python}
import json, sys
answers = json.load(open({answers!r}))
if answers["fails"]:
    print(answers["fails"])
    sys.exit(9)
option = sys.argv[1]
if option == "topo":
    print(answers["topo"])
elif option.startswith("--query-compute-apps"):
    print("\\n".join(answers["processes"]))
elif option.startswith("--query-gpu"):
    names = option.partition("=")[2].split(",")
    if any(name not in gpu for gpu in answers["gpus"] for name in names):
        print("Field is not a valid field to query.")
        sys.exit(2)
    for gpu in answers["gpus"]:
        print(", ".join(gpu[name] for name in names))
"""
GPU = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory.total": "81559",
    "memory.used": "3",
    "clocks.sm": "1980",
    "clocks.max.sm": "1980",
    "mig.mode.current": "Disabled",
    "driver_version": "550.54.15",
    "clocks_throttle_reasons.active": "0x0000000000000000",
}


class FakeSmi:
    def __init__(self, folder, patch):
        self._answers = folder / "smi.json"
        program = folder / "nvidia-smi"
        program.write_text(PROGRAM.format(python=sys.executable, answers=str(self._answers)))
        program.chmod(0o755)
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        self.gpus = [{**GPU, "uuid": f"GPU-{letter}"} for letter in "ab"]
        self.processes, self.topo, self.fails = [], "", ""
        self.say()

    def say(self, **changes):
        """From now on; ``changes`` apply to every GPU."""
        for gpu in self.gpus:
            gpu.update(changes)
        names = ("gpus", "processes", "topo", "fails")
        self._answers.write_text(json.dumps({name: getattr(self, name) for name in names}))
