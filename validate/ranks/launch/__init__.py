"""Starts one process per rank, watches them, and ends them all together.

On the testbed's hosts or on this machine alone.

    from validate.ranks.launch import launch, loopback

    run = launch([sys.executable, "-m", "package.program", "argument"], loopback(4), timeout_s=60)
    run.rows               # a list of dicts: what the ranks wrote, each with its "rank", in order
    run.ranks[2].stdout    # and .stderr, .exit_code, .host, .rows of one rank

    with Testbed(TestbedConfig(hosts=4)) as testbed:      # from validate.ranks.testbed
        run = launch(command, testbed.hosts, timeout_s=60)

**Where.** The second argument is one `Host` per rank, in order of rank: ``testbed.hosts``,
``loopback(n)``, or any selection of them; a host that is named k times gets k ranks.

**What a rank sees.** RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR (rank 0's host),
MASTER_PORT (free there), GLOO_SOCKET_IFNAME, OMP_NUM_THREADS=1, PYTHONUNBUFFERED=1, then what
``environment`` adds; no stdin. On the testbed ranks run under ``chrt -f 5`` (``realtime=False`` to
not; where that is not permitted ``run.notes`` says so): a rank that waits there must sleep, since
one that spins keeps others of its priority off its processor.

**What it costs.** A rank that imports torch takes two seconds of a processor to start.
``preload=["package.module"]`` has it imported once, by a process of which ranks are forks; they
have the same environment, output and end, but that one that ends well leaves its objects as they
are: what should be written must be closed, or be flushed by `atexit`. Such a module must start no
thread and touch no GPU when it is imported. Without safe forks (on macOS, say) each rank imports
for itself.

**What a rank says.** `write_row` appends one JSON object to the rank's own file at once, so that
what was measured before a crash is kept; `connected` says that the rank has found the others, which
``connect_timeout_s`` waits for. Everything on stdout and stderr is collected (the last 256 KiB of
each), and given to ``on_line(rank, stream, line)`` as it comes.

    from validate.ranks.launch import connected, write_row     # in the rank

    dist.init_process_group("gloo"); connected()
    write_row({"bytes": 4096, "time_s": 0.001})

**What can go wrong.** A rank that exits with another code than 0, is killed, has not connected
within ``connect_timeout_s`` or not finished within ``timeout_s`` ends the run: all are killed
within `ENDED_WITHIN_S`, and `RunFailed` says which rank on which host, how, and its last words;
``error.run`` is the `Run` with the rows, output and exit codes until then. However the launcher
itself ends, also by kill -9, its ranks and what they started end too (all but what left their
process group; the testbed ends that as well).
"""

from validate.ranks.launch.forked import Process
from validate.ranks.launch.group import ProcessGroup
from validate.ranks.launch.host import LOOPBACK, Host, loopback
from validate.ranks.launch.launcher import ENDED_WITHIN_S, REALTIME, launch
from validate.ranks.launch.own_folder import own_folder
from validate.ranks.launch.rows import connected, write_row
from validate.ranks.launch.run import RankRun, Run, RunFailed

__all__ = [
    "ENDED_WITHIN_S",
    "LOOPBACK",
    "REALTIME",
    "Host",
    "Process",
    "ProcessGroup",
    "RankRun",
    "Run",
    "RunFailed",
    "connected",
    "launch",
    "loopback",
    "own_folder",
    "write_row",
]
