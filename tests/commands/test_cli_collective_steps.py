"""``dpsim collective --steps``: a schedule to be read beside a lecture."""

import json

import numpy as np
import pytest

from dpsim.collectives import algorithm, algorithm_names

RING_OF_3 = """\
round 1: 0 -> 1  chunk 0  reduce
round 1: 1 -> 2  chunk 1  reduce
round 1: 2 -> 0  chunk 2  reduce
round 2: 0 -> 1  chunk 2  reduce
round 2: 1 -> 2  chunk 0  reduce
round 2: 2 -> 0  chunk 1  reduce
round 3: 0 -> 1  chunk 1  copy
round 3: 1 -> 2  chunk 2  copy
round 3: 2 -> 0  chunk 0  copy
round 4: 0 -> 1  chunk 0  copy
round 4: 1 -> 2  chunk 1  copy
round 4: 2 -> 0  chunk 2  copy
"""


def test_a_butterfly_has_the_given_degree(dpsim):
    requested = ("collective", "--steps", "--ranks", 4, "--algorithm", "butterfly:4")
    pairs = [(source, other) for source in range(4) for other in range(4) if source != other]
    lines = [f"round 1: {source} -> {other}  chunk 0  reduce\n" for source, other in pairs]
    assert dpsim(*requested) == (0, "".join(lines), "")


def test_the_ring_is_the_textbook_s(dpsim):
    assert dpsim("collective", "--steps", "--ranks", 3, "--algorithm", "ring") == (0, RING_OF_3, "")


NAMES = [*(each for each in algorithm_names() if each != "torus-2d"), "butterfly:3"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_adds_up(dpsim, name):
    """Carried out on paper, the printed transfers of an all-reduce leave every rank the sum."""
    ranks = 4
    _, out, _ = dpsim("collective", "--steps", "--ranks", ranks, "--algorithm", name, "--json")
    reported = json.loads(out)
    held = np.eye(ranks)[:, None, :].repeat(reported["chunks"], 1)  # who contributed to which chunk
    for each in reported["rounds"]:
        before = held.copy()
        for move in each:
            part = slice(move["chunk"], move["chunk"] + move["chunks"])
            sent = before[move["source"], part]
            if move["action"] == "reduce":
                held[move["destination"], part] += sent
            else:
                held[move["destination"], part] = sent
    assert (held == 1).all()
    assert reported["chunks"] == algorithm(name).schedule(ranks).chunks


@pytest.mark.parametrize("more", [[], ["--ranks", 65], ["--ranks", 4, "--algorithm", "rings"]])
def test_what_has_no_steps_is_a_line(dpsim, more):
    code, out, err = dpsim("collective", "--steps", *more)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_a_page_plays_two_side_by_side(dpsim, tmp_path):
    page = tmp_path / "steps.html"
    wanted = ("--steps", "--ranks", 4, "--algorithm", "ring,tree", "--html", page)
    assert dpsim("collective", *wanted) == (0, "", f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "<title>dpsim: ring all-reduce of 4 ranks and tree all-reduce of 4 ranks</title>" in text
    assert '"seconds": null' in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--ranks", 4], "--html: must be given with --steps"),
        (["--steps", "--ranks", 17], "--html: --ranks must be from 1 to 16, but got 17"),
        (["--steps"], "--html: --ranks must be from 1 to 16, but is missing"),
        (
            ["--steps", "--ranks", 4, "--algorithm", "ring,tree,swing,butterfly,hierarchical"],
            "at most 4 with --html",
        ),
        (["--steps", "--cluster", "dgx1-v100", "--nodes", 3], "at most 16 ranks"),
    ],
)
def test_a_page_that_cannot_be_is_a_line(dpsim, tmp_path, more, says):
    code, out, err = dpsim("collective", *more, "--html", tmp_path / "steps.html")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert says in err
