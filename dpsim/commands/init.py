"""``dpsim init``: write a first scenario file."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.terminal import narrate
from dpsim.commands.import_options import deliver, parse_scenario
from dpsim.commands.options import Json, Length, Output, whole_numbers

if TYPE_CHECKING:
    from dpsim.imports.first_scenario import Answers
    from dpsim.imports.scenario_draft import ScenarioDraft
    from dpsim.scenario import Scenario

_MOST_TOKENS = 16_384  # of a pass, without a given batch
_MOST_SAMPLES = 64
# Without --strategy, (strategy, recompute activations) are tried in this order until one fits.
_STRATEGIES_TRIED: tuple[tuple[str, bool], ...] = (("ddp", False), ("fsdp", False), ("fsdp", True))

# The option that takes names of each kind.
_NAMED_BY = {
    "GPU": "--gpu",
    "node": "--node",
    "link": "--network",
    "model": "--model",
    "strategy": "--strategy",
}

GpuName = Annotated[str | None, typer.Option("--gpu", help="The GPU: H100, A100, rtx-4090.")]
Nodes = Annotated[int | None, typer.Option("--nodes", min=1, help="Number of machines.")]
PerNode = Annotated[
    int | None,
    typer.Option("--gpus-per-node", min=1, help="GPUs in use per machine; all if left out."),
]
NodeKind = Annotated[
    str | None,
    typer.Option(
        "--node", help="Kind of machine (dpsim catalogue nodes); chosen by its GPU if left out."
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        help='Link of each network card: 25GbE, NDR, "5 Gbit/s"; the machine\'s if left out.',
    ),
]
Nics = Annotated[
    int | None,
    typer.Option("--nics", min=1, help="Network cards per machine; the kind's number if left out."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A model (dpsim catalogue models), a Hugging Face config.json, or file.py:factory "
        "with --input.",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="SIDES", help="For a torch module: the shape of a sample, 3,224,224."
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help=(
            "ddp, zero-1, zero-2, fsdp, hsdp, parameter-server, local-sgd or powersgd; if "
            "left out, ddp, or fsdp if ddp does not fit."
        ),
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="Samples per GPU and pass; as many as fit if left out."),
]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", min=1, help="Samples per step over all GPUs.")
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision", help="If left out: bf16 if the GPU supports it, otherwise fp16 or fp32."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def init(
    gpu: GpuName = None,
    nodes: Nodes = None,
    gpus_per_node: PerNode = None,
    node: NodeKind = None,
    network: Network = None,
    nics: Nics = None,
    model: ModelName = None,
    shape: Shape = None,
    sequence_length: Length = None,
    strategy: Strategy = None,
    batch: Batch = None,
    global_batch: GlobalBatch = None,
    precision: Precision = None,
    output: Output = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a first scenario file, with a comment on each value.

    In a terminal it asks for values without an option; elsewhere it uses defaults.

    Example: dpsim init -o first.yaml
    Example: dpsim init --gpu H100 --nodes 4 --model llama3-8b --global-batch 1024 -o llama.yaml
    """
    if output is not None and output.is_file() and not force:
        raise DpsimError(f"{output}: must be a new file, or be given with --force, but exists")
    options: dict[str, Any] = {
        "gpu": gpu,
        "nodes": nodes,
        "gpus_per_node": gpus_per_node,
        "node": node,
        "network": network,
        "nics": nics,
        "model": model,
        "input": None if shape is None else tuple(whole_numbers("--input", shape)),
        "sequence_length": sequence_length,
        "strategy": strategy,
        "batch": batch,
        "global_batch": global_batch,
        "precision": precision,
    }
    # A terminal prompts for the values without an option; otherwise they have defaults.
    values = {name: value for name, value in options.items() if value is not None}
    try:
        draft = _draft_scenario(values, output)
    except UnknownNameError as error:
        option = _NAMED_BY.get(error.what)
        raise DpsimError(f"{option}: {error}" if option else str(error)) from None
    # Validate the draft again with its batch, so that no invalid file is written.
    _report_which(values.get("gpu"), _scenario(draft, output))
    more = f": dpsim run {output}"
    deliver(draft.to_yaml(), output, as_json, "init", draft.to_json(), more)


def _draft_scenario(values: dict[str, Any], output: Path | None) -> ScenarioDraft:
    """Return the scenario from options, answers in a terminal, and defaults."""
    from dpsim.hardware import nodes as catalogue_nodes
    from dpsim.imports.first_scenario import Answers, names_file, strategy_named

    if sys.stdin.isatty():
        _prompt(values)
    if "node" in values and "gpu" not in values:
        values["gpu"] = catalogue_nodes()[values["node"]].gpu.name
    tried = _STRATEGIES_TRIED
    if "strategy" in values:
        values["strategy"] = strategy_named(values["strategy"])
        # Keep the requested strategy; only recomputing activations may reduce its memory.
        tried = tuple((values["strategy"], checkpoint) for checkpoint in (False, True))
    if Path(values.get("model", ""), "config.json").is_file():
        values["model"] = str(Path(values["model"], "config.json"))
    # The file's path is relative to the scenario.
    if names_file(values.get("model", "")):
        folder = Path.cwd() if output is None else output.parent
        values["model"] = os.path.relpath(values["model"], folder)

    # A scenario that may not fit, by the model's error, is only used if no other is found.
    for headroom, (strategy, checkpoint) in product((True, False), tried):
        answers = Answers(**{**values, "strategy": strategy, "checkpoint": checkpoint})
        draft = _with_batch(answers, output, values.get("batch"), headroom=headroom)
        if draft is not None:
            return draft
    return _draft_or_refuse(answers, output)


def _prompt(values: dict[str, Any]) -> None:
    """Ask for the missing values."""
    from dpsim.imports.first_scenario import STRATEGIES, Answers, machine_for
    from dpsim.workload import MODELS

    usual = Answers()
    for name, question, kind in (("gpu", "GPU", str), ("nodes", "Number of machines", int)):
        if name not in values and not (name == "gpu" and "node" in values):
            # On stderr, since the scenario itself may go to stdout.
            values[name] = typer.prompt(question, default=getattr(usual, name), type=kind, err=True)
    machine = values.get("node") or machine_for(values["gpu"], values.get("gpus_per_node"))
    if "network" not in values and values["nodes"] > 1:
        link = f"the {machine}'s own"
        network = typer.prompt("Network card's link (25GbE, NDR, ...)", default=link, err=True)
        values |= {} if network == link else {"network": network}
    if "model" not in values:
        narrate(f"models: {len(MODELS)} names, such as resnet50, gpt2, llama3-8b, mixtral-8x7b")
        values["model"] = typer.prompt("Model", default=usual.model, err=True)
    if "strategy" not in values:
        for name, recipe in STRATEGIES.items():
            narrate(f"  {name:17} {recipe.about}")
        strategy = typer.prompt("Strategy", default="what fits", err=True)
        values |= {} if strategy == "what fits" else {"strategy": strategy}


def _report_which(requested: str | None, scenario: Scenario) -> None:
    """Report which GPU and machine are used for a name that several GPUs of the catalogue share."""
    from dpsim.hardware import gpus

    part = scenario.cluster.parts[0]
    taken = part.accelerator.name
    words = (requested or "").lower().replace(" ", "-")
    alike = [gpu for gpu in gpus() if {*words.split("-")} <= {*gpu.split("-")}]
    others = [gpu for gpu in alike if gpu != taken]
    if requested and words != taken and others:
        narrate(
            f"note: --gpu {requested} is taken as {taken}, {part.ranks // part.nodes} in each "
            f"{part.node.name}; others: {', '.join(others)}"
        )


def _with_batch(
    answers: Answers, output: Path | None, batch: int | None, *, headroom: bool
) -> ScenarioDraft | None:
    """Return the draft with ``batch`` samples per pass, or a usual number; None if too large.

    With ``headroom`` it must fit even with the model's error.
    """
    from dpsim.engine import memory_use
    from dpsim.imports.first_scenario import scenario_from_answers

    # Without a batch use 1 here: memory use then determines the largest batch that fits.
    draft = scenario_from_answers(replace(answers, batch=batch or 1))
    scenario = _scenario(draft, output)
    use = memory_use(scenario)
    use = use.with_headroom if headroom else use
    if batch is not None:
        return draft if use.fits else None
    samples = _MOST_TOKENS // use.model.tokens if use.model.tokens else _MOST_SAMPLES
    most = min(use.largest_batch, max(1, samples))
    if not most:
        return None
    return scenario_from_answers(replace(answers, batch=_batch(scenario, most)))


def _batch(scenario: Scenario, most: int) -> int:
    """Return the largest power of two up to ``most``.

    For a stated global batch, the largest number up to ``most`` that divides a GPU's share instead.
    """
    global_batch = scenario.workload.global_batch
    if global_batch is None:
        return 1 << most.bit_length() - 1
    share = global_batch // scenario.cluster.ranks
    return next(size for size in range(min(most, share), 0, -1) if share % size == 0)


def _draft_or_refuse(answers: Answers, output: Path | None) -> ScenarioDraft:
    """Return the draft of ``answers``. Raises DpsimError if it does not fit in memory."""
    from dpsim.engine import check_fits
    from dpsim.imports.first_scenario import scenario_from_answers

    draft = scenario_from_answers(answers)
    check_fits(_scenario(draft, output))
    return draft


def _scenario(draft: ScenarioDraft, output: Path | None) -> Scenario:
    """Return the scenario of a draft. Raises DpsimError if it is invalid."""
    path = output or Path("scenario.yaml")
    try:
        return parse_scenario(draft.to_yaml(), path)
    except DpsimError as error:
        # Without the place in the file, which is not written.
        message = re.sub(rf"^.*?{re.escape(str(path))}:\d+:\d+: ", "", str(error))
        raise DpsimError(f"the options do not make a scenario: {message}") from None
