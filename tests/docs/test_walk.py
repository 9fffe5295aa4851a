"""The machinery that holds documents to what they say.

A tiny document each, and the problems that it must name.
"""

import pytest
from document_blocks import blocks
from document_walk import OUTDATED, Walk, refreshed

from dpsim.base import registry


@pytest.fixture
def problems(tmp_path):
    return lambda content, has=(): list(Walk(tmp_path, has).problems(content))


def fenced(text, language="", mark=""):
    return (f"<!-- {mark} -->\n" if mark else "") + f"```{language}\n{text}\n```\n"


SCENARIO = "name: one\ncluster: {node: single-gpu}\nworkload: {model: alexnet, batch_per_gpu: 8}"


@pytest.mark.parametrize(
    "content",
    [
        fenced("dpsim schema", "sh"),
        fenced("# first one, then two\ndpsim check \\\n  scenarios/quickstart.yaml", "sh"),
        fenced("dpsim check scenarios/quickstart.yaml | grep -c ok", "sh")
        + fenced("1", mark="output"),
        fenced("dpsim check scenarios/quickstart.yaml > checked && cut -c 1-9 checked", "sh")
        + fenced("scenarios", mark="output"),
        fenced("$ dpsim check scenarios/quickstart.yaml", "console")
        + fenced("scenarios/quickstart.yaml: ok", mark="output"),
        fenced(
            "scenarios/quickstart.yaml: ok", mark="output of: dpsim check scenarios/quickstart.yaml"
        ),
        fenced("dpsim run nowhere.yaml", "sh", "exits: 2"),
        fenced(SCENARIO, "yaml"),
        fenced("strategy: {sync: {kind: ssp}}", "yaml"),
        fenced("testbed: {hosts: 2}", "yaml"),
        fenced("x: 1", "yaml", "not run: an example of another file"),
        fenced(SCENARIO, "yaml", "file: sub/mine.yaml") + fenced("dpsim check sub/mine.yaml", "sh"),
        fenced("X = 3", "python", "file: three.py")
        + fenced("import three\nprint(three.X)", "python")
        + fenced("3", mark="output"),
        fenced("rm -r /", "sh", "not run: a joke"),
        fenced("exit 1", "sh", "needs: torch") + fenced("nothing", mark="output"),
    ],
)
def test_what_is_so_is_no_problem(problems, content):
    assert problems(content) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            fenced("dpsim run nowhere.yaml", "sh"),
            "1: 'dpsim run nowhere.yaml' must end with 0, but ended with 2: dpsim: nowhere.yaml",
        ),
        (
            fenced("dpsim run nowhere.yaml | cat", "sh"),
            "1: 'dpsim run nowhere.yaml' must end with 0, but ended with 2: dpsim: nowhere.yaml",
        ),
        ("\n\n" + fenced("false\ntrue", "sh"), "3: 'false' must end with 0, but ended with 1"),
        (fenced("true", "sh", "exits: 2"), "2: 'true' must end with 2, but ended with 0"),
        (fenced("raise SystemExit('no')", "python"), "must end with 0, but ended with 1: no"),
        (fenced("print(3)", "python") + fenced("4", mark="output"), "5: the output is another one"),
        (fenced("exit 1", "sh", "needs: torch"), "'exit 1' must end with 0"),
        (fenced(SCENARIO + "\nseed: 1", "yaml", "file: mine.yaml"), "mine.yaml:4:1: seed"),
        (fenced("strategy: {sync: {kind: sps}}", "yaml"), "strategy.sync.kind"),
        (fenced("colour: red", "yaml"), "1: a yaml block must be a scenario"),
        (
            fenced("+++ dpsim/base/units.py\n-no such line", "diff"),
            "dpsim/base/units.py: must hold the old lines once, but holds them 0 times",
        ),
        (
            fenced("true", "fish"),
            "a block's language must be python, sh, yaml, diff, or text, but got 'fish'",
        ),
        (fenced("dpsim schema"), "commands must stand in a block of language sh"),
        (
            fenced("true", "sh", "ouput"),
            "a mark must be one of those of tests/docs/document_blocks.py, but got 'ouput'",
        ),
        (fenced("true", "sh", "not run: "), "a mark must be one of those"),
        ("1. one\n   ```sh\n   false\n   ```\n", "2: a fence must stand at the margin"),
    ],
)
def test_what_is_not_so_is_named_with_its_line(problems, content, message):
    (problem,) = problems(content, has=("torch",))
    assert message in problem


def test_what_is_slow_is_carried_out_where_python_has_a_process_of_its_own(tmp_path):
    slow = fenced("false", "sh", "slow") + fenced("nothing", mark="output")
    quoted = fenced("nothing", mark="slow output of: dpsim check scenarios/quickstart.yaml")
    assert list(Walk(tmp_path / "a").problems(slow + quoted)) == []
    ran, reported = Walk(tmp_path / "b", apart=True).problems(slow + quoted)
    assert "'false' must end with 0" in ran
    assert reported.endswith(OUTDATED)


def test_an_edit_changes_the_documents_own_sources_and_no_others(tmp_path):
    edit = fenced(
        '+++ dpsim/base/registry.py\n-T = TypeVar("T")\n+T = TypeVar("T")\n+ANSWER = 42', "diff"
    )
    requested = fenced("from dpsim.base.registry import ANSWER\nprint(ANSWER)", "python") + fenced(
        "42", mark="output"
    )
    assert list(Walk(tmp_path, apart=True).problems(edit + requested)) == []
    assert not hasattr(registry, "ANSWER")


def test_a_quote_is_refreshed_and_nothing_else(tmp_path):
    content = (
        "A\n"
        + fenced("print(1)\nprint(2)", "python")
        + "B\n"
        + fenced("old", mark="output")
        + "C\n"
        + fenced("kept")
    )
    walk = Walk(tmp_path)
    assert len(list(walk.problems(content))) == 1
    assert refreshed(content, walk.quotes) == content.replace("old", "1\n2")
    assert len(list(blocks(content))) == 3
