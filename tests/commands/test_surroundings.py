"""The program in surroundings that are not a developer's: terminals, homes, folders, versions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIO = """name: NAME
cluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 2}
workload: {model: resnet18, batch_per_gpu: 4}
run: {steps: 2, warmup: 1}
"""
SWEEP = SCENARIO + "sweep: {parameters: {run.seed: {values: [0, 1]}}}\n"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
HOMES = {
    "no home": {"HOME": None, "XDG_CONFIG_HOME": None, "XDG_CACHE_HOME": None},
    "a home that is none": {"HOME": "/proc/nowhere/at/all"},
    "a home that nobody can write": {"HOME": "/proc", "XDG_CACHE_HOME": "/proc"},
    "no user folder of the catalogue": {"DPSIM_CATALOGUE": None, "HOME": "/proc"},
}
ENCODINGS = {
    "C": {"LC_ALL": "C"},
    "ASCII": ASCII,
    "Turkish": {"LC_ALL": "tr_TR.UTF-8"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
}
TERMINALS = {
    "dumb": {"TERM": "dumb"},
    "none": {"TERM": None, "COLUMNS": "0"},
    "narrow": {"COLUMNS": "3"},
    "coloured": {"FORCE_COLOR": "1", "COLUMNS": "80"},
}
# Each pair of a home, an encoding and a terminal occurs once.
SURROUNDINGS = [
    ([*HOMES][home], [*ENCODINGS][encoding], [*TERMINALS][home ^ encoding])
    for home in range(4)
    for encoding in range(4)
]


def process(folder, *arguments, **options):
    """What a process of the program leaves: code, stdout and stderr, in bytes."""
    return python(folder, "from dpsim.cli import main; main()", *arguments, **options)


def python(folder, code, *arguments, environment=(), **options):
    kept = {**os.environ, "PYTHONPATH": str(ROOT), **dict(environment)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={name: value for name, value in kept.items() if value is not None},
        capture_output=True,
        timeout=120,
        check=False,
        **{"stdin": subprocess.DEVNULL, **options},
    )


def well(done, code=0):
    """It ended as it should, and nobody saw a traceback."""
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "f.yaml").write_text(SCENARIO.replace("NAME", "plain"))
    return tmp_path


SEVERAL = """
import sys
from dpsim.cli import main
lines, codes = [[]], []
for word in sys.argv[1:]:
    if word == ";":
        lines.append([])
    else:
        lines[-1].append(word)
for line in lines:
    sys.argv = ["dpsim", *line]
    try:
        main()
    except SystemExit as end:
        codes.append(end.code or 0)
print(codes)
"""


def several(folder, *lines, **options):
    """How each of these command lines ends, one after the other in a process, and what it leaves."""
    words = [word for line in lines for word in (";", *line)][1:]
    done = well(python(folder, SEVERAL, *words, **options))
    return json.loads(done.stdout.splitlines()[-1]), done


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize(("home", "encoding", "terminal"), SURROUNDINGS)
def test_homes_encodings_and_terminals(folder, home, encoding, terminal):
    """A scenario that there is, and one that there is not."""
    (folder / "g.yaml").write_text(SCENARIO.replace("NAME", "naïve ✓ 名前"))
    environment = {**HOMES[home], **ENCODINGS[encoding], **TERMINALS[terminal]}
    codes, done = several(folder, ("run", "g.yaml"), ("run", "é.yaml"), environment=environment)
    assert codes == [0, 2]
    assert len(done.stdout.splitlines()) > 1
    assert (done.stdout + done.stderr).isascii() or encoding != "ASCII"


def test_nothing_to_read_from_and_no_terminal(folder):
    well(process(folder, "run", "f.yaml", stdin=None, start_new_session=True))


def test_a_mask_that_leaves_files_to_their_owner(dpsim, folder):
    before = os.umask(0o077)
    try:
        assert dpsim("run", folder / "f.yaml", "-o", folder / "a.json")[0] == 0
    finally:
        os.umask(before)
    assert (folder / "a.json").stat().st_mode & 0o777 == 0o600


def test_spaces_and_other_letters_in_paths(dpsim, tmp_path, monkeypatch):
    folder = tmp_path / "wide open ☃ Übung"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "naïve file.yaml").write_text(SWEEP.replace("NAME", "plain"))
    page = ["--html", "ein Bericht.html", "-o", "α β.json"]
    assert dpsim("run", "naïve file.yaml", *page)[0] == 0
    assert json.loads((folder / "α β.json").read_text())["name"] == "plain"
    assert dpsim("sweep", "naïve file.yaml", "-o", "Ergebnis ß", "--workers", "1")[0] == 0
    (folder / "Ergebnis ß").rename(folder / "Ergebnis ß [1] *?")
    requested = process(folder, "results", "Ergebnis ß [1] *?", "--json", environment=ASCII)
    assert len(json.loads(well(requested).stdout)["rows"]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize(
    "arguments",
    [["run", "f.yaml"], pytest.param(["run", "f.yaml", "--json"], marks=pytest.mark.wide)],
)
def test_stdout_that_is_full(folder, arguments):
    with open("/dev/full", "w") as full:
        kept = {**os.environ, "PYTHONPATH": str(ROOT)}
        code = "from dpsim.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            env=kept,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr


def test_a_temporary_folder_that_is_full(folder, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "none", full],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        outputs = (), ("-o", "a.json"), ("-o", full / "a.json")
        lines = [("run", "f.yaml", *output) for output in outputs]
        codes, done = several(folder, *lines, environment={"TMPDIR": str(full)})
        assert codes == [0, 0, 2]
        assert b"cannot be written" in done.stderr
    finally:
        subprocess.run(["umount", full], check=True)


def test_what_would_drive_a_terminal_is_spelled_out(dpsim, folder, monkeypatch):
    monkeypatch.chdir(folder)
    escape = "\\x1b]0;owned\\x07\\x1b[31m"
    Path("e.yaml").write_text(SCENARIO.replace("NAME", f'"{escape}red"'))
    for command in (["run"], ["memory"], ["check"], ["topology"], ["run", "--set", "x.\x1b[1m=2"]):
        _, out, err = dpsim(command[0], "e.yaml", *command[1:])
        assert "\x1b" not in out + err, command
    code, _, err = dpsim("run", "\x1b[31m.yaml")
    assert code == 2
    assert "\x1b" not in err


def test_long_values_are_not_repeated_whole(dpsim, folder, monkeypatch):
    monkeypatch.chdir(folder)
    long = "x" * 3_000
    for arguments in (
        ["run", "f.yaml", "--set", f"name={long * 3}"],
        ["run", "f.yaml", "--set", f"workload.model={long}"],
        ["run", f"{long}.yaml"],
        ["run", "f.yaml", f"--{long}"],
        ["collective", "--ranks", long],
        [long],
        ["catalogue", long],
        ["memory", long],
        ["compare", "f.yaml", "--vary", f"{long}=1,2"],
    ):
        code, _, err = dpsim(*arguments)
        assert code == 2
        assert max(map(len, err.splitlines())) < 1_000, arguments[:2]


def test_bytes_that_are_no_text(dpsim, folder):
    assert dpsim("run", folder / "f.yaml", "-o", folder / "a.json")[0] == 0
    page = ("report", "a.json", "--html", b"a\xff.html")
    lines = page, ("run", b"\xff.yaml"), ("run", "f.yaml", "-o", b"\xff.json")
    (of_page, of_scenario, of_answer), _ = several(folder, *lines)
    assert of_scenario == 2
    assert {of_page, of_answer} <= {0, 2}


@pytest.mark.wide
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_versions_of_python_read_every_file(version, tmp_path):
    """Without a warning; running needs that version's libraries."""
    found = [
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
        *Path("/usr/bin").glob(f"python{version}"),
    ]
    if not found:
        pytest.skip(f"there is no Python {version} here")
    code = (
        "import pathlib, sys\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*.py'):\n"
        "    compile(path.read_text(encoding='utf-8'), str(path), 'exec')\n"
    )
    for package in ("dpsim", "validate", "app"):
        subprocess.run([found[0], "-W", "error", "-c", code, ROOT / package], check=True)


def test_a_folder_whose_name_is_too_long(dpsim, folder):
    code, _, err = dpsim("sweep", folder / "f.yaml", "--resume", "-o", folder / ("o" * 300))
    assert code in (1, 2)
    assert "too long" in err
    assert "failed:" not in err
