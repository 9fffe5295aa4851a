"""Starts one process per rank, watches them, and ends them all together.

On the testbed's hosts or on this machine alone.

    from validate.ranks.launch import launch, loopback

    run = launch([sys.executable, "-m", "package.program", "argument"], loopback(4), timeout_s=60)
    run.rows               # a list of dicts: the rows of the ranks, each with its "rank", in order
    run.ranks[2].stdout    # and .stderr, .exit_code, .host, .rows of one rank

    with Testbed(TestbedConfig(hosts=4)) as testbed:      # from validate.ranks.testbed
        run = launch(command, testbed.hosts, timeout_s=60)

**Hosts.** The second argument is one `Host` per rank, in order of rank: ``testbed.hosts``,
``loopback(n)``, or any selection of them; a host that is named k times gets k ranks.

**Environment.** RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR (rank 0's host),
MASTER_PORT (free there), GLOO_SOCKET_IFNAME, OMP_NUM_THREADS=1, PYTHONUNBUFFERED=1, then
``environment``; no stdin. On the testbed ranks run under ``chrt -f 5`` unless ``realtime=False``
(``run.notes`` says if it is not permitted): a rank that waits there must sleep, since one that
spins keeps others of its priority off its processor.

**Cost.** A rank that imports torch takes two seconds of a processor to start. With
``preload=["package.module"]`` one process imports it once and forks the ranks; these have the same
environment, output and end, except that a successful rank exits without freeing its objects: output
files must be closed, or flushed by `atexit`. Such a module must start no thread and use no GPU when
imported. Without safe forks (on macOS, say) each rank imports for itself.

**Output.** `write_row` appends one JSON object to the rank's own file at once, so that measurements
before a crash are kept; `report_connected` reports that the rank has found the others, for which
``connect_timeout_s`` is the limit. Everything on stdout and stderr is collected (the last 256 KiB
of each), and passed to ``on_line(rank, stream, line)`` as it comes.

    from validate.ranks.launch import report_connected, write_row    # in the rank

    dist.init_process_group("gloo"); report_connected()
    write_row({"bytes": 4096, "time_s": 0.001})

**Failures.** A rank that exits with another code than 0, is killed, has not connected within
``connect_timeout_s`` or not finished within ``timeout_s`` ends the run: all are killed within
`ENDED_WITHIN_S`, and `RunFailed` names the rank and its host, the reason, and its last words;
``error.run`` is the `Run` with the rows, output and exit codes until then. However the launcher
ends, even by kill -9, its ranks and the processes they started end too (except those that left
their process group, which the testbed ends).
"""

from validate.ranks.launch.group import ProcessGroup
from validate.ranks.launch.host import LOOPBACK, Host, loopback
from validate.ranks.launch.launcher import ENDED_WITHIN_S, launch, realtime_words
from validate.ranks.launch.run import FOLDER, Run, RunFailed, read_rows, report_connected, write_row

__all__ = [
    "ENDED_WITHIN_S",
    "FOLDER",
    "LOOPBACK",
    "Host",
    "ProcessGroup",
    "Run",
    "RunFailed",
    "launch",
    "loopback",
    "read_rows",
    "realtime_words",
    "report_connected",
    "write_row",
]
