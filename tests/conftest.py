"""What all tests share.

How they are spread over processes, and a tiny job whose times can be worked out on paper.

Tests marked testbed need network namespaces with limited links, and those marked torch or
transformers these packages: without, they are skipped, in CI they fail.
"""

import gc
import os
import signal
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# Processes that share the cores have one thread each: linear algebra with more of them waits for
# itself. Before numpy is loaded. Nor do sweeps start a process for each core, if nobody asks for it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")

# Images of containers often forbid bytecode. The tests start some hundred processes, each of which
# would compile every module anew.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False

# Whoever runs the tests may have hardware of their own, which the tests must not see.
os.environ["DPSIM_CATALOGUE"] = ""

import pytest
from hypothesis import settings
from pairwise import mark_wide
from skipped import pytest_sessionfinish  # noqa: F401 (a hook)

from dpsim.network.kernel import library_of
from dpsim.scenario import Scenario
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

# A shell that starts the suite in the background (nohup, &) has it ignore these signals, and so
# would all that the tests start to be ended by them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long a random case takes depends on what else the machine does. `make test-wide` tries more.
settings.register_profile("few", deadline=None, max_examples=25)
settings.register_profile("wide", deadline=None, max_examples=100)
settings.load_profile("few")

# Real ranks measure and hold what the machine has once: one process runs them, one after another.
# Browsers and sweeps likewise.
RANKS = (
    "calibrate",
    "collectives",
    "elastic",
    "emulate",
    "microbench",
    "node",
    "ranks",
    "run",
    "training",
)
ONE_WORKER = {
    "app/": "browser",
    "studies/sweep/": "sweep",
    "docs/test_on_the_testbed": "ranks",
    # What imports torch: it takes two seconds of each process that does.
    "workload/test_hf_config": "torch",
    "workload/test_reference_models": "torch",
    "workload/test_torch_trace": "torch",
    **{f"validate/{part}/": "ranks" for part in RANKS},
}
# What takes long, lest one process waits for it.
FIRST = (
    "ranks",
    "laws/test_scenarios.py",
    "validate/published/test_step_tables.py",
    "validate/published/test_accuracy.py",
    "fuzz/test_hostile_commands.py",
    "fuzz/test_hostile_scenarios.py",
    "test_determinism.py",
    "sweep",
    "browser",
    "studies/test_goodput.py",
    "docs/test_documents.py",
    "validate/published/test_step_reference.py",
    "fuzz/test_hostile_files.py",
    "commands/test_surroundings.py",
)

LONG_S = 4 * 3600  # that a test marked long may take

# Markers of tests that need a package of this name, and the extra that has it.
EXTRAS = {"torch": "validate", "transformers": "hf"}

INSTANT = {"rate": "1 PB/s", "latency": 0}
# Elements of the two layers: 1 MB each, which the network carries in 1 s.
LAYERS = (250_000, 250_000)


def group_of(test):
    """What runs in one process, by a test's id.

    Its file, for the fixtures' sake, or with others what needs the machine.
    """
    path = test.partition("::")[0].removeprefix("tests/")
    return next((group for folder, group in ONE_WORKER.items() if path.startswith(folder)), path)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    mark_wide(items)
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_S))
    items.sort(
        key=lambda item: (
            FIRST.index(group) if (group := group_of(item.nodeid)) in FIRST else len(FIRST)
        )
    )


# All that collection makes stays, and is looked through for garbage neither then nor later: that
# would be a third of the time that it takes.
def pytest_sessionstart():
    gc.disable()
    # As the installation does, which may be older than the C files.
    if not library_of().exists():
        subprocess.run([sys.executable, Path(__file__).parents[1] / "build_loops.py"], check=False)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Shares out groups, in their order."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)


RAN_IN = {}


def pytest_runtest_logreport(report):
    """Ends a run in which a group is in two processes.

    Its fixtures would be made twice, and nobody would see it.
    """
    group, process = group_of(report.nodeid), getattr(report, "worker_id", "")
    if RAN_IN.setdefault(group, process) != process:
        pytest.exit(
            f"tests of {group} ran in {RAN_IN[group]} and in {process}, and should run in one "
            "process",
            returncode=1,
        )


@cache
def missing():
    """What this machine lacks for a testbed, or nothing."""
    from validate.ranks import testbed

    try:
        with testbed.Testbed(testbed.TestbedConfig(hosts=2)):
            return ""
    except testbed.TestbedError as error:
        return str(error)


@cache
def installed(package):
    return find_spec(package) is not None


def pytest_runtest_setup(item):
    for package, extra in EXTRAS.items():
        if item.get_closest_marker(package) and not installed(package):
            pytest.skip(f"{package} is not installed: pip install -e '.[{extra}]'")
    if item.get_closest_marker("testbed") and missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have a testbed: {missing()}", pytrace=False)
        pytest.skip(missing())


@pytest.fixture
def dpsim(monkeypatch, capsys):
    """Runs a command in this process; answers exit code, stdout and stderr.

    Nobody ever sees a traceback.
    """
    from dpsim import cli

    def call(*args):
        monkeypatch.setattr("sys.argv", ["dpsim", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return exit_.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def two_layers(tmp_path_factory):
    """A profile.

    Forward 1 s and 2 s, backward 3 s (layer 0) and 4 s (layer 1), update 0.5 s; 8 samples a batch.
    """
    times = MeasuredTimes(
        batch_sizes=(8,), forward_s=((1.0, 2.0),), backward_s=((3.0, 4.0),), optimizer_s=(0.5,)
    )
    layers = tuple(
        Layer(f"layer{number}", "linear", (elements,)) for number, elements in enumerate(LAYERS)
    )
    path = tmp_path_factory.mktemp("tiny") / "two-layers.json"
    path.write_text(ModelProfile.of(Model("two-layers", layers, "sample", times), {}).to_json())
    return path


@pytest.fixture(scope="session")
def tiny(two_layers):
    """Builds a Scenario.

    ``workers`` nodes of one GPU on a switch, 1 MB/s a card, ``latency`` s from card to card.

    Strategies are given by kind or as a mapping; ``cluster``, ``workload``, ``run`` and
    ``disturbance`` replace single fields.
    """
    gpu = {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "3 PB/s"}
    node = {
        "gpu": gpu,
        "devices": {"gpu": 1, "cpu": 1},
        "edges": [{"between": ["gpu0", "cpu0"], "link": INSTANT}],
        "nic_slots": ["cpu0"],
        "nic_bus": INSTANT,
        "nics": {"link": INSTANT},
    }

    def build(
        workers=2,
        latency=0.0,
        *,
        cluster=(),
        workload=(),
        run=(),
        disturbance=(),
        average_loss=False,
        **strategy,
    ):
        nic = {"rate": "1 MB/s", "latency": f"{latency / 2!r} s"}
        network = {"fabric": "single-switch", "nic": nic, "nics_per_node": 1}
        parts = {"overlap": "sequential", **strategy}
        named = {
            part: {"kind": given} if isinstance(given, str) else given
            for part, given in parts.items()
        }
        content = {
            "name": "tiny",
            "cluster": {"nodes": workers, "node": node, "network": network, **dict(cluster)},
            "workload": {
                "model": {"profile": str(two_layers)},
                "batch_per_gpu": 8,
                **dict(workload),
            },
            "strategy": {"average_loss": average_loss, **named},
            "run": {"steps": 3, "warmup": 0, **dict(run)},
            "disturbance": dict(disturbance),
        }
        return Scenario.model_validate(content)

    return build
