"""Run by each rank of a test.

Operations that go wrong on one rank, between operations that go right.
"""

import sys
import time

from validate.backends import cells as backend_cells
from validate.backends.cells import _Message, as_rank


class Late(_Message):
    """One rank comes after the others have stopped waiting."""

    def run(self, source, target):
        if self.world.rank:
            time.sleep(2 * self.world.timeout)
        super().run(source, target)


class Broken(_Message):
    """One rank fails before it sends anything."""

    def run(self, source, target):
        if self.world.rank == 0:
            raise NotImplementedError("Not here\nwith a trace")
        super().run(source, target)


class Forgetful(_Message):
    """Nothing is sent, and nobody complains."""

    def run(self, source, target):
        pass


class Fatal(_Message):
    """A rank dies."""

    def run(self, source, target):
        sys.exit("no more")


backend_cells.TRIED = {
    **backend_cells.TRIED,
    "reduce": Late,
    "gather": Broken,
    "scatter": Forgetful,
    "all_to_all": Fatal,
}
as_rank(*sys.argv[1:])
