"""What each importer takes, assumes and ignores of a file in the format's own words.

``python tests/imports/test_summaries.py`` writes data/summaries anew: read the difference.
"""

from pathlib import Path

import pytest
from imported import DATA

SUMMARIES = DATA / "summaries"
# The command, its file, and options.
FILES = {
    "accelerate_fsdp.yaml": ("accelerate", "--model", "llama2-7b", "--batch", "2"),
    "accelerate_hsdp.yaml": ("accelerate",),
    "trainer_fsdp.yaml": ("accelerate", "--nodes", "1"),
    "axolotl.yml": ("axolotl", "--nodes", "1"),
    "llama_factory.yaml": ("llama-factory", "--nodes", "1"),
    "torchtune.yaml": ("torchtune", "--model", "llama3-8b"),
    "composer.yaml": ("composer", "--model", "mpt-7b"),
    "ds_config.json": ("deepspeed", "--model", "gpt2-xl"),
    "ds_trainer.json": ("deepspeed", "--model", "llama3-8b", "--nodes", "2"),
    "torchtitan_llama3_8b.toml": ("torchtitan", "--nodes", "8"),
    "torchtitan_deepseek_v3_16b.toml": ("torchtitan", "--model", "mixtral-8x7b"),
    "hgx-h100.topo.txt": ("nvidia-topo",),
    "dgx1-v100.xml": ("nccl-topo",),
    "all-reduce-2x8-a100.log": ("nccl-tests",),
    "all-reduce-2x8-a100.json": ("nccl-tests",),
    "cpu.kineto.json": ("kineto",),
    "slurm-tree.conf": ("slurm-topology", "--node", "dgx-a100"),
}


def output(dpsim, name, out):
    """The summary of an import, which must write its file and end well."""
    command, *options = FILES[name]
    code, _, err = dpsim("import", command, DATA / name, *options, "-o", out)
    assert code == 0, err
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("wrote"))


@pytest.mark.parametrize("name", FILES)
def test_an_import_ends_with_what_was_taken_assumed_and_ignored(dpsim, tmp_path, name):
    summary = output(dpsim, name, tmp_path / "out")
    words = [line.partition(": ")[0] for line in summary.splitlines()]
    kinds = ["taken", "assumed", "ignored"]
    assert [word for word in dict.fromkeys(words) if word in kinds] == kinds
    assert summary == (SUMMARIES / f"{name}.txt").read_text()


def _write_anew() -> None:
    import subprocess
    import sys
    import tempfile

    def dpsim(*words):
        ran = subprocess.run(
            [Path(sys.executable).with_name("dpsim"), *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
        )
        return ran.returncode, ran.stdout, ran.stderr

    SUMMARIES.mkdir(exist_ok=True)
    for name in FILES:
        with tempfile.TemporaryDirectory() as folder:
            (SUMMARIES / f"{name}.txt").write_text(output(dpsim, name, Path(folder) / "out"))


if __name__ == "__main__":
    _write_anew()
