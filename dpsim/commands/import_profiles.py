"""``dpsim import``: import profiles of models from torch modules or profilers' traces."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show, show_answer
from dpsim.commands.import_options import TracedBatch, deliver_profile, summarise_notes
from dpsim.commands.options import Json, Output, whole_numbers
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.imports.kineto_ranks import RankTraces
    from dpsim.workload import ModelProfile


def torch(
    factory: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FACTORY",
            help="package.module:factory or file.py:factory.",
            show_default=False,
        ),
    ],
    shape: Annotated[
        str,
        typer.Option("--input", metavar="SIDES", help="Shape of one sample, such as 3,224,224."),
    ],
    dtype: Annotated[
        str, typer.Option(help="Data type of the input: float32, or int64 for tokens.")
    ] = "float32",
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Trace a torch module without its weights, on the meta device: a profile for workload.model.

    Example: dpsim import torch mypackage.models:build --input 3,224,224 -o profile.json
    """
    from dpsim.base.provenance import stamp
    from dpsim.workload import ModelProfile, import_torch, trace

    if dtype not in ("float32", "int64"):
        raise DpsimError(f"--dtype must be float32 or int64, but got {dtype!r}")
    sides = tuple(whole_numbers("--input", shape))
    model = trace(factory, sides, dtype)
    lengths = ",".join(map(str, sides))
    provenance = {
        "source": f"dpsim import torch {factory} --input {lengths} --dtype {dtype}",
        "torch": str(import_torch().__version__),
        **stamp(),
    }
    show_profile(ModelProfile.of(model, provenance), output, as_json)


def kineto(
    file: Annotated[
        Path,
        typer.Argument(
            help="A trace of PyTorch's profiler, gzipped or not, or a folder of all ranks'.",
            show_default=False,
        ),
    ],
    output: Output = None,
    batch: TracedBatch = None,
    disturbance: Annotated[
        Path | None,
        typer.Option(help="For a folder: write the disturbance block to this file (YAML)."),
    ] = None,
    histogram: Annotated[
        Path | None,
        typer.Option(help="For a folder: write the factors of compute times to this file (CSV)."),
    ] = None,
    gpus_per_node: Annotated[
        int | None,
        typer.Option(min=1, help="For a folder: ranks per node, if its files do not name hosts."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn a PyTorch profiler trace into a profile; for a folder of all ranks, list slow ones.

    The profile has measured times of the layers, gradients and NCCL calls; the longest layers, the
    update and idle time are listed. A folder also gives the jitter of a scenario, and each rank's
    compute time, waits and share of being last.

    Example: dpsim import kineto trace.json -o profile.json
    Example: dpsim import kineto traces/ -o profile.json --disturbance disturbance.yaml
    """
    from dpsim.imports.kineto import profile_kineto

    if file.is_dir():
        # Slow ranks show only in a comparison of all ranks' traces.
        written = (output, disturbance, histogram)
        _ranks(file, batch, gpus_per_node, written, as_json)
        return
    if disturbance or histogram or gpus_per_node:
        raise DpsimError(
            f"{file}: must be a folder of traces for --disturbance, --histogram and --gpus-per-node"
        )
    show_profile(profile_kineto(file, batch=batch), output, as_json)


def _ranks(
    folder: Path,
    batch: int | None,
    gpus_per_node: int | None,
    written: tuple[Path | None, Path | None, Path | None],
    as_json: bool,
) -> None:
    """Report slow ranks; write a typical rank's profile, the disturbance and the histogram."""
    from dpsim.imports.kineto_ranks import disturbance_of, histogram_of, read_ranks, trace_files
    from dpsim.scenario import as_yaml

    with progress("traces", len(trace_files(folder))) as done:
        traces = read_ranks(folder, gpus_per_node=gpus_per_node, progress=done)
    profile_file, disturbance_file, histogram_file = written
    # Traces without shapes give no profile, but everything else.
    profile = _typical(folder, traces, batch, must=profile_file is not None)
    block, histogram = disturbance_of(traces), histogram_of(traces)
    text = as_yaml({"disturbance": block}, 79)
    steps = f"{len(traces.steps)} steps of {len(traces.ranks)} ranks"
    summarise_notes([steps], [*traces.notes, *(profile.notes if profile else ())])
    if profile_file is not None and profile is not None:
        save(profile_file, profile.to_json())
    if disturbance_file is not None:
        save(disturbance_file, text)
    if histogram_file is not None:
        save(histogram_file, _csv(folder, histogram))
    if as_json:
        show_answer(
            "import-kineto",
            ranks=[asdict(one) for one in traces.ranks],
            steps=[asdict(one) for one in traces.steps],
            disturbance=block,
            histogram=histogram,
            profile=None if profile is None else profile.model_dump(mode="json"),
            notes=list(traces.notes),
        )
        return
    from dpsim.report.text.ranks import ranks_notes, ranks_table

    show(ranks_table(folder.resolve().name, traces), *ranks_notes(traces))
    if disturbance_file is None:
        show(text)


def _typical(
    folder: Path, traces: RankTraces, batch: int | None, *, must: bool
) -> ModelProfile | None:
    """Return the layer profile of the median rank; None if its trace has none."""
    from dpsim.imports.kineto import profile_kineto

    typical = traces.typical_rank
    try:
        profile = profile_kineto(folder / typical.file, batch=batch, name=folder.resolve().name)
    except DpsimError as problem:
        # Fail only if a profile was requested; the rest is useful without it.
        if must:
            raise
        narrate(f"warning: no layer profile: {problem}")
        return None
    note = f"of rank {typical.rank}, whose compute time is the median"
    return profile.model_copy(update={"notes": (note, *profile.notes)})


def _csv(folder: Path, histogram: dict[str, list[float]] | None) -> str:
    """Return the histogram as CSV for ``disturbance.jitter.file``."""
    if histogram is None:
        raise DpsimError(f"{folder}: must have at least 2 steps of each rank for a histogram")
    pairs = zip(histogram["values"], histogram["weights"], strict=True)
    return "value,weight\n" + "".join(f"{value:g},{weight:g}\n" for value, weight in pairs)


def nsys(
    file: Annotated[
        Path,
        typer.Argument(help="Output of nsys export --type sqlite.", show_default=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the layers' profile to this file."),
    ] = None,
    batch: TracedBatch = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help=(
                "Prefix of the NVTX ranges that mark steps; if left out, ranges such as 'step 7'."
            ),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Break down the steps of an Nsight Systems profile, and profile their layers.

    Layers need NVTX ranges of torch's operators: torch.autograd.profiler.emit_nvtx.

    Example: dpsim import nsys report.sqlite -o profile.json
    """
    from dpsim.imports.nsys import read_nsys_profile

    report = read_nsys_profile(file, batch=batch, steps=steps)
    if report.profile is None and output is not None:
        raise DpsimError(f"{file}: has no layer profile: {report.why_none}")
    taken = [f"{len(report.steps)} steps"]
    if report.profile is None:
        summarise_notes(
            taken, [*report.notes, f"layers, so that there is no layer profile: {report.why_none}"]
        )
    else:
        taken.append(f"{len(report.profile.layers)} layers")
        summarise_notes(taken, [*report.notes, *report.profile.notes])
    if report.profile is not None and output is not None:
        save(output, report.profile.to_json())
    if as_json:
        profile = report.profile
        show_answer(
            "import-nsys",
            device=report.device,
            steps=[asdict(step) for step in report.steps],
            profile=None if profile is None else profile.model_dump(mode="json"),
            notes=[*report.notes, *([report.why_none] if report.why_none else [])],
        )
        return
    from dpsim.report.text.ranks import nsys_table

    show(nsys_table(file.name, report))


def show_profile(profile: ModelProfile, output: Path | None, as_json: bool) -> None:
    """Report what was found, and write or print the profile."""
    model = profile.model()
    taken = [
        f"{len(model.layers)} layers, {model.parameters:,} parameters, {model.forward_flop:,} "
        "FLOP forward per sample"
    ]
    if profile.measured is not None:
        forward, backward = sum(profile.measured.forward_s[0]), sum(profile.measured.backward_s[0])
        taken.append(
            f"measured at batch {profile.measured.batch_sizes[0]}: forward {forward:.3g} s, "
            f"backward {backward:.3g} s; "
            f"{len(profile.collectives)} collective calls a step"
        )
    summarise_notes(taken, profile.notes)
    if profile.traced is not None and not as_json:
        from dpsim.report.text.ranks import traced_table

        # The answer is the profile, in a file or alone on stdout.
        show(traced_table(profile.name, profile.traced), as_message=True)
    deliver_profile(profile, output, as_json)
