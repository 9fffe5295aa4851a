"""One of the processes that a launcher started: rank 0 orders, and the others carry out their part.

Also the program of the ranks that are ordered: they meet, and rank FAILING fails.
"""

import json
import sys
import time
from pathlib import Path

from dpsim.base.errors import FailedError
from validate.ranks.orders import Program, orders_here
from validate.ranks.processes import joined, leave


class HangsError(Exception):
    pass


def rank(folder, order, failing):
    with joined("gloo", "cpu", 60) as world:
        everyone = world.gather((world.rank, world.place.local_size))
        if world.rank == 0:
            (folder / f"met-{order}").write_text(json.dumps(everyone))
        if str(world.rank) == failing:
            raise RuntimeError("this rank has had enough")
        if failing == "hang":
            time.sleep(600)
        # Those that are left wait for the one that failed.
        world.barrier()


def orderer(folder):
    orders = orders_here()
    if orders is None:
        return
    message = {"most": orders.most}
    for name, ranks, failing in (("a", 3, ""), ("b", 3, "2"), ("c", 2, ""), ("d", 3, "hang")):
        program = Program((sys.executable, __file__, str(folder), name, failing), ("torch",))
        began = time.monotonic()

        def look(name=name, folder=folder):
            if name == "d" and (folder / "met-d").exists():
                raise HangsError("it hangs")

        try:
            orders.carry_out(program, ranks, look)
            message[name] = "done"
        except (FailedError, HangsError) as error:
            message[name] = str(error)
        message[f"{name}_s"] = time.monotonic() - began
    orders.close()
    (folder / "said").write_text(json.dumps(message))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        orderer(Path(sys.argv[1]))
    else:
        try:
            rank(Path(sys.argv[1]), *sys.argv[2:])
        except Exception as error:
            leave(error)
