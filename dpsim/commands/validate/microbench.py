"""``dpsim validate microbench``: time collectives, messages, copies, layers, updates and codecs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError, FailedError
from dpsim.base.terminal import save, show
from dpsim.commands.options import read_option, whole_numbers
from dpsim.commands.progress import bars
from dpsim.commands.validate.options import Device, torch_first

if TYPE_CHECKING:
    from validate.microbench.run_file import RunFile
    from validate.microbench.settings import Settings

_NAMES = "NAME,..."


What = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "collectives, point-to-point, reduction, copies, layers, optimizer, codecs, "
            "learners, products, spread, beside; all if left out."
        ),
        show_default=False,
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="Ranks to start on this machine; torchrun's ranks if started by it.",
    ),
]
Backend = Annotated[str, typer.Option(help="auto, gloo, nccl or mpi.")]
Begin = Annotated[
    str, typer.Option("-b", "--minbytes", help="Smallest size: 8, 4K, 1M (binary), 1 MB.")
]
End = Annotated[str, typer.Option("-e", "--maxbytes", help="Largest size.")]
Factor = Annotated[
    float, typer.Option("-f", "--stepfactor", help="Factor from each size to the next.")
]
Iterations = Annotated[int, typer.Option("-n", "--iters", min=1, help="Measured repetitions.")]
Warmup = Annotated[int, typer.Option("-w", "--warmup_iters", min=0, help="Warm-up repetitions.")]
Datatypes = Annotated[
    str,
    typer.Option(
        "-d",
        "--datatype",
        metavar=_NAMES,
        help="int8, uint8, int32, int64, half, float, double, bfloat16, or all.",
    ),
]
Operations = Annotated[
    str,
    typer.Option(
        "--operation", metavar=_NAMES, help="Collective operations, such as all-gather, or all."
    ),
]
Algorithms = Annotated[
    str,
    typer.Option(
        "--algorithm",
        metavar=_NAMES,
        help="library (the backend's own), ring and others (run as schedules), or all.",
    ),
]
Model = Annotated[
    str, typer.Option(help="small-cnn, small-transformer, or package.module:factory.")
]
Shape = Annotated[
    str,
    typer.Option("--input", metavar="SIDES", help="Shape of one sample of a factory: 3,224,224."),
]
Dtype = Annotated[str, typer.Option(help="Data type of that input: float32, or int64 for tokens.")]
Precision = Annotated[
    str, typer.Option(help="Precision of layers and learners: fp32, tf32, fp16 or bf16.")
]
BatchSizes = Annotated[
    str, typer.Option("--batch-sizes", metavar="N,...", help="Samples in a batch.")
]
Learners = Annotated[
    str, typer.Option(metavar="N,...", help="Number of replicas that share the device.")
]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds that ranks wait for one another.")]
Output = Annotated[Path | None, typer.Option(help="Write the run file to this path.")]
Profile = Annotated[
    Path | None,
    typer.Option(help="Write the layers as a profile for workload.model to this path."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the run file instead of tables.")]


def microbench(
    what: What = None,
    ranks: Ranks = None,
    backend: Backend = "auto",
    device: Device = "auto",
    begin: Begin = "4K",
    end: End = "4M",
    factor: Factor = 4.0,
    iterations: Iterations = 20,
    warmup: Warmup = 2,
    datatypes: Datatypes = "float",
    operations: Operations = "all-reduce",
    algorithms: Algorithms = "library",
    model: Model = "small-cnn",
    shape: Shape = "",
    dtype: Dtype = "float32",
    precision: Precision = "fp32",
    batch_sizes: BatchSizes = "1,4,16",
    learners: Learners = "1,2,4",
    timeout: Timeout = 60.0,
    output: Output = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Measure this machine; collectives take the flags and size syntax of nccl-tests.

    Example: dpsim validate microbench collectives --ranks 4 -e 16M --algorithm library,ring
    Example: dpsim validate microbench layers --model mypackage.models:build --input 3,224,224
        --profile profile.json
    Example: torchrun --nproc-per-node 8 -m validate microbench collectives -b 8 -e 1G -f 2
    """
    torch_first("microbench")
    _check_profile(profile, what)
    settings = _settings(
        what=what,
        backend=backend,
        device=device,
        timeout=timeout,
        begin=_size("-b", begin),
        end=_size("-e", end),
        factor=factor,
        iterations=iterations,
        warmup=warmup,
        datatypes=_names(datatypes),
        operations=_names(operations),
        algorithms=_names(algorithms),
        model=model,
        input=tuple(whole_numbers("--input", shape)) if shape else (),
        input_type=dtype,
        precision=precision,
        batch_sizes=tuple(whole_numbers("--batch-sizes", batch_sizes)),
        learners=tuple(whole_numbers("--learners", learners)),
    )
    _deliver(_run(settings, ranks), output, profile, as_json)


def _check_profile(profile: Path | None, what: list[str] | None) -> None:
    if profile is not None and what and "layers" not in what:
        raise DpsimError(f"--profile must come with layers, but got {', '.join(what)}")


def _size(option: str, text: str) -> int:
    from dpsim.studies.collective import parse_size

    return read_option(option, parse_size, text)


def _settings(what: list[str] | None, **fields: Any) -> Settings:
    from pydantic import ValidationError

    from dpsim.base.config import first_problem
    from validate.microbench.benchmarks import BENCHMARKS
    from validate.microbench.settings import Settings

    try:
        return Settings(what=tuple(what or BENCHMARKS), **fields).checked()
    except ValidationError as error:
        where, rule, given = first_problem(error)
        raise DpsimError(f"{where}: {rule}, but got {given!r}") from None


def _run(settings: Settings, ranks: int | None) -> RunFile | None:
    """Return the run, on the rank that has it."""
    from validate.microbench.runs import here, launch_benchmarks
    from validate.ranks.launch import loopback

    # A launcher such as torchrun sets RANK in each of its ranks.
    if ranks is not None and "RANK" in os.environ:
        raise DpsimError("--ranks must be left out under a launcher, which has started the ranks")
    with bars() as progress:
        return (
            here(settings, progress)
            if ranks is None
            else launch_benchmarks(settings, loopback(ranks), progress)
        )


def _deliver(run: RunFile | None, output: Path | None, profile: Path | None, as_json: bool) -> None:
    """Write and print the measurements; ranks other than the first have none."""
    if run is None:
        return
    from validate.microbench.layers import profile as profile_of

    if output is not None:
        save(output, run.to_json())
    if profile is not None and run.of("layers"):
        save(profile, profile_of(run.of("layers"), run.settings).to_json())
    if as_json:
        # The run file itself, which ends with a line break.
        typer.echo(run.to_json(), nl=False)
    else:
        from validate.microbench.tables import parts

        for part in parts(run):
            show(part, "")
    wrong = sum(
        row.get(name) or 0 for row in run.of("collectives") for name in ("wrong", "in_place_wrong")
    )
    # Raised last, after writing and showing what was measured.
    if run.failed or wrong:
        raise FailedError(run.failed or f"{wrong:,} values of collectives were wrong")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
