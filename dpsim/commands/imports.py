"""``dpsim import``: import files of other tools."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.commands.help import Commands
from dpsim.commands.import_options import (
    KnownModel,
    KnownNode,
    deliver,
    deliver_profile,
    read_file,
    show_scenario,
    summarise,
    summarise_notes,
)
from dpsim.commands.options import Json, Length, Output

import_app = Commands(
    "Read what you already have: topologies of nodes, measurements of collectives, models and "
    "their profiles.",
    homes={
        "kineto": "dpsim.commands.import_profiles:kineto",
        "nsys": "dpsim.commands.import_profiles:nsys",
        "slurm-topology": "dpsim.commands.import_networks:slurm_topology",
        "torch": "dpsim.commands.import_profiles:torch",
    },
)

GpuName = Annotated[
    str | None,
    typer.Option("--gpu", metavar="NAME", help="The kind of GPU (dpsim catalogue gpus)."),
]
Nic = Annotated[
    str | None,
    typer.Option(
        "--nic", metavar="LINK", help="The network link of each card (dpsim catalogue links)."
    ),
]

Nodes = Annotated[
    int | None,
    typer.Option("--nnodes", "--nodes", min=1, help="Number of nodes, as passed to torchrun."),
]
PerNode = Annotated[
    int | None,
    typer.Option("--nproc-per-node", "--gpus-per-node", min=1, help="GPUs in use per node."),
]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Samples per GPU and pass.")]


def _node_command(tool: str, file_help: str, about: str, example: str) -> None:
    """Add the command that makes a node of the file of a tool."""
    # Annotations are text in this file, evaluated with the module's names: a closure can only
    # provide defaults.
    argument = typer.Argument(..., help=file_help, show_default=False)

    # Typer reads options from a signature: all commands for nodes share this one.
    @import_app.command(tool, help=f"{about}\n\nExample: {example}")
    def command(
        file: Path = argument,
        output: Output = None,
        gpu: GpuName = None,
        nic: Nic = None,
        as_json: Json = False,
    ) -> None:
        from dpsim.imports.nccl_topo import node_from_nccl_topo
        from dpsim.imports.nvidia_topo import node_from_nvidia_topo
        from dpsim.imports.options import NodeOptions

        read = node_from_nccl_topo if tool == "nccl-topo" else node_from_nvidia_topo
        options = NodeOptions(gpu, nic)
        draft = read_file(file, lambda content: read(content, options, file.name))
        try:
            node = draft.to_node()
        except ValueError as error:
            raise DpsimError(f"{file}: does not describe one connected node: {error}") from None
        summarise(*draft.summary())
        content = {"node": node.model_dump(mode="json"), "assumptions": draft.assumptions()}
        deliver(draft.to_yaml(), output, as_json, "import-node", content)


_node_command(
    "nvidia-topo",
    "The text that nvidia-smi topo -m prints.",
    "Turn the matrix of nvidia-smi topo -m into a node for the catalogue.",
    "nvidia-smi topo -m > topo.txt && dpsim import nvidia-topo topo.txt -o node.yaml --gpu A100 "
    "--nic HDR",
)
_node_command(
    "nccl-topo",
    "The XML that NCCL writes to NCCL_TOPO_DUMP_FILE.",
    "Turn NCCL's topology file into a node for the catalogue; options override the file.",
    "dpsim import nccl-topo topo.xml -o node.yaml",
)


@import_app.command("nccl-tests")
def nccl_tests(
    file: Annotated[
        Path,
        typer.Argument(
            help="Output of all_reduce_perf or another nccl-tests program, as text or from -J.",
            show_default=False,
        ),
    ],
    output: Output = None,
    operation: Annotated[
        str | None, typer.Option(help="The operation, if the log does not name its program.")
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(min=1, max=2**20, help="Number of ranks, if the log does not list them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit latency and bandwidth on the table of an nccl-tests log: a calibration profile.

    Example: dpsim import nccl-tests all_reduce.log -o profile.json
    """
    from dpsim.base.units import plural
    from dpsim.imports.nccl_tests import parse_nccl_tests
    from dpsim.imports.nccl_tests_fit import fit_nccl_tests

    log = read_file(file, lambda content: parse_nccl_tests(content, operation, ranks))
    # The log is parsed already; `read_file` adds the file's name to the errors of the fit.
    profile = read_file(file, lambda content: fit_nccl_tests(log, file.stem, file.name))
    notes = list(log.notes)
    if log.wrong_values:
        notes.append(f"ignored: the log says that {log.wrong_values} values were wrong")
    fit = profile.residuals
    hosts = plural(log.hosts, "host")
    taken = [
        f"{fit.n} rows of {log.operation}, {log.ranks} ranks on {hosts}",
        f"on these same rows {profile.formula} is off by {fit.mean_ape:.1%} on average and "
        f"{fit.worst_ape:.1%} at worst, at {fit.worst_bytes:,} bytes: how well the formula "
        "describes them, not how well it predicts others",
    ]
    summarise_notes(taken, notes)
    deliver_profile(profile, output, as_json)


# For each training program: the function that reads its configuration, the help of the FILE
# argument, the configuration's name in the command's help, and example arguments.
_CONFIGURATIONS = {
    "deepspeed": (
        "deepspeed:scenario_from_deepspeed",
        "A DeepSpeed configuration (ds_config.json).",
        "a DeepSpeed configuration",
        "ds_config.json --model llama3-8b --nnodes 2",
    ),
    "accelerate": (
        "accelerate:scenario_from_accelerate",
        "accelerate's YAML, or Trainer's arguments with fsdp_config.",
        "accelerate's configuration, or Trainer's with FSDP,",
        "default_config.yaml --model llama3-8b --batch 2",
    ),
    "torchtitan": (
        "torchtitan:scenario_from_torchtitan",
        "A job configuration of torchtitan (TOML).",
        "a job configuration of torchtitan",
        "llama3_8b.toml --nnodes 8 --nproc-per-node 8",
    ),
    "axolotl": (
        "trainer_dialects:axolotl",
        "A configuration of axolotl (YAML).",
        "Axolotl's configuration",
        "config.yml --nnodes 1 --nproc-per-node 8",
    ),
    "llama-factory": (
        "trainer_dialects:llama_factory",
        "A configuration of llama-factory (YAML).",
        "LLaMA-Factory's configuration",
        "sft.yaml --nproc-per-node 8",
    ),
    "torchtune": (
        "trainer_dialects:torchtune",
        "A configuration of torchtune (YAML).",
        "a torchtune recipe's configuration",
        "8B_full.yaml --model llama3-8b",
    ),
    "composer": (
        "trainer_dialects:composer",
        "A configuration of composer (YAML).",
        "Composer's or llm-foundry's configuration",
        "mpt-7b.yaml --model mpt-7b",
    ),
}


def _scenario_command(tool: str, home: str, file_help: str, what: str, example: str) -> None:
    """Add the command that makes a scenario of a training tool's configuration."""
    argument = typer.Argument(..., help=file_help, show_default=False)
    about = f"Turn {what} into a scenario, with a comment on each value."

    # Typer reads options from a signature: all commands for configurations share this one.
    @import_app.command(tool, help=f"{about}\n\nExample: dpsim import {tool} {example} -o run.yaml")
    def command(
        file: Path = argument,
        output: Output = None,
        model: KnownModel = None,
        nnodes: Nodes = None,
        nproc_per_node: PerNode = None,
        node: KnownNode = None,
        batch: Batch = None,
        sequence_length: Length = None,
        as_json: Json = False,
    ) -> None:
        from dpsim.imports.scenario_draft import TrainingSizes

        read = resolve_name(f"dpsim.imports.{home}")
        sizes = TrainingSizes(
            model, nnodes, nproc_per_node, node, batch, sequence_length, file.parent
        )
        draft = read_file(file, lambda content: read(content, file.name, sizes))
        show_scenario(file, draft, output, as_json)


for _tool, _words in _CONFIGURATIONS.items():
    _scenario_command(_tool, *_words)
