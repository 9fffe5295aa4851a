"""The reference pages are those of the registries, the models and the command line as they are
now.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpsim import cli
from dpsim.collectives import ALGORITHMS, ALL_REDUCES, GOSSIP_GRAPHS, OPERATIONS
from dpsim.disturbance import DisturbanceConfig
from dpsim.hardware import gpus, links, nodes
from dpsim.scenario import Scenario
from dpsim.strategy import StrategyConfig
from dpsim.workload import MODELS
from tools.combinations_page import kinds_of
from tools.reference_pages import reference_pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
EXIT_CODES = cli.__doc__.strip().split("\n\n")[-1]
LINK = re.compile(r"\]\(([\w-]*\.?\w*)#([\w-]+)\)")


@pytest.fixture(scope="module")
def pages():
    """As another process makes them, in a narrow terminal and with hashes of its own."""
    environment = {**os.environ, "COLUMNS": "40", "PYTHONHASHSEED": "1", "TERM": "xterm"}
    ran = subprocess.run(
        [sys.executable, __file__, "--print"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(ran.stdout)


def test_the_committed_pages_are_those_of_the_program(pages):
    """Nor does the terminal in which they were written show, nor do its hashes."""
    written = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert written.keys() == pages.keys()
    drifted = [name for name, text in pages.items() if written[name] != text]
    assert drifted == [], (
        "what they are made from changed: run 'make golden', and look at the difference"
    )


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("collectives.md", [*OPERATIONS, *{one.name for one in ALGORITHMS}, *GOSSIP_GRAPHS]),
        ("hardware.md", [*gpus(), *links(), *nodes()]),
        ("models.md", [*MODELS]),
        (
            "strategies.md",
            [*ALL_REDUCES, *StrategyConfig.model_fields, *DisturbanceConfig.model_fields],
        ),
        (
            "strategies.md",
            [
                kind
                for part in ("aggregation", "sync", "overlap", "compression")
                for kind in kinds_of(part)
            ],
        ),
        ("scenario.md", [*Scenario.model_fields]),
    ],
)
def test_a_page_names_every_member(pages, name, members):
    assert [member for member in members if f"`{member}`" not in pages[name]] == []


def test_every_command_that_help_lists_has_its_part(pages, dpsim):
    listed = [["dpsim", word] for word in commands(dpsim("--help")[1])]
    groups = {
        word: commands(dpsim(word, "--help")[1]) for word in ("import", "explain", "validate")
    }
    called = [f"dpsim {word}" for _, word in listed if word not in groups]
    called += [f"dpsim {group} {word}" for group, words in groups.items() for word in words]
    headings = re.findall(r"^##+ `(.+)`$", pages["commands.md"], re.MULTILINE)
    assert sorted(headings) == sorted([*called, *(f"dpsim {word}" for word in groups)])


def commands(help_text):
    """The words that are listed below the options."""
    listed = help_text.partition("Show this message and exit.\n")[2]
    return re.findall(r"^  ([a-z][a-z-]*)\b", listed, re.MULTILINE)


def test_options_stand_with_their_limits_and_defaults(pages):
    text = pages["commands.md"]
    for line in (
        "* `--itemsize <int range>`: Bytes per element.  [default: 4; 1<=x<=16]",
        "* `file <path>`: A scenario file (YAML).  [required]",
        "* `-b, --begin <str>`: Smallest size: 8, 4K, 1M (binary), 1 MB.  [default: 1M]",
        "- `dpsim run scenarios/quickstart.yaml --set cluster.nodes=8`",
    ):
        assert f"\n{line}\n" in text, line


def test_fields_stand_with_type_unit_limits_and_default(pages):
    for row in (
        "| `steps` | whole number, 1 to 1,000,000 | `50` | Measured steps, after the warm-up. |",
        "| `bucket_size` | amount of data above 0, such as `25 MiB` | `25 MiB` | Size at "
        "which a bucket is sent. |",
        "| `update_rate` | data rate above 0, such as `25 Gbit/s` | `10 GB/s` |",
        "| `optimizer` | one of `sgd`, `momentum`, `adam`, `adamw`, `adam-8bit`, `adamw-8bit`, ",
        "| `racks` | list of at least 2: list: whole number | `[[0, 1], [2, 3]]` |",
        "| `rate` | data rate above 0, such as `25 Gbit/s`, or a list of them | `12.5 MB/s` |",
    ):
        assert any(row in page for page in pages.values()), row


def test_every_link_leads_to_a_heading(pages):
    for name, text in pages.items():
        for target, place in LINK.findall(text):
            headings = re.findall(r"^#+ (.+)$", pages[target or name], re.MULTILINE)
            assert place in {
                re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings
            }, (name, target, place)


if __name__ == "__main__":
    found = reference_pages(EXIT_CODES)
    if "--print" in sys.argv:
        print(json.dumps(found))
    else:
        FOLDER.mkdir(exist_ok=True)
        for each, text in found.items():
            (FOLDER / each).write_text(text)
