"""Each broken scenario file and the exact error that it gets."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from stand_in import GOOD, Scenario

from dpsim.base.errors import ScenarioError
from dpsim.scenario import SHOWN_PROBLEMS, validate
from dpsim.scenario.loader import MAX_BYTES, load
from dpsim.scenario.yaml_text import from_text

# A file that is good, to which a table's row adds from line 3 on.
HEAD = "name: a\nworkload: {model: m}\n"

VALUES = {
    "strategy: {sync: {kind: ssp, stalenes: 1}}": "3:30: strategy.sync.stalenes: is not a known key (did you mean 'staleness'?)",
    "strategy: {sync: {kind: bsp, staleness: 1}}": (
        "3:30: strategy.sync.staleness: is not a known key of this kind (it belongs to 'ssp')"
    ),
    "clutser: {nodes: 2}": "3:1: clutser: is not a known key (did you mean 'cluster'?)",
    "cluster:\n  zzz: 1": "4:3: cluster.zzz: is not a known key (known: network, node, nodes)",
    "1: 2": "3:1: 1: is not a known key (known: calibration, cluster, disturbance, name, run, strategy, workload)",
    '"a\\eb": 2': (
        "3:1: 'a\\x1bb': is not a known key (known: calibration, cluster, disturbance, name, run, "
        "strategy, workload)"
    ),
    "cluster: {network: {bandwidth: 25 Gb}}": (
        "3:32: cluster.network.bandwidth: must be a data rate with its unit, such as '25 Gbit/s', "
        "but got '25 Gb', which is an amount of data"
    ),
    "cluster: {network: {bandwidth: 25}}": (
        "3:32: cluster.network.bandwidth: must be a data rate with its unit, such as '25 Gbit/s', "
        "but got 25, which has no unit"
    ),
    "cluster: {network: {bandwidth: 0 Gbit/s}}": "3:32: cluster.network.bandwidth: must be greater than 0, but got '0 Gbit/s'",
    "cluster: {network: {bandwidth: -1 GB/s}}": "3:32: cluster.network.bandwidth: must be greater than 0, but got '-1 GB/s'",
    "cluster: {network: {oversubscription: .nan}}": (
        "3:39: cluster.network.oversubscription: must be a finite number, but got .nan"
    ),
    "cluster: {network: {oversubscription: 1e999}}": (
        "3:39: cluster.network.oversubscription: must be a finite number, but got .inf"
    ),
    "cluster: {nodes: 0}": "3:18: cluster.nodes: must be at least 1, but got 0",
    "cluster: {nodes: 100001}": "3:18: cluster.nodes: must be at most 100000, but got 100001",
    "cluster: {nodes: 2.5}": "3:18: cluster.nodes: must be an integer, but got 2.5",
    'cluster: {nodes: "many"}': "3:18: cluster.nodes: must be an integer, but got 'many'",
    "cluster: {network: {oversubscription: false}}": "3:39: cluster.network.oversubscription: must be a number, but got false",
    "cluster: {nodes: true}": "3:18: cluster.nodes: must be an integer, but got true",
    "cluster: {nodes: 1 000}": "3:18: cluster.nodes: must be an integer, but got '1 000'",
    "cluster:\n  nodes:\n  node: dgx-a100": "4:3: cluster.nodes: must be an integer, but got nothing",
    "cluster: {nodes: [1, 2]}": "3:18: cluster.nodes: must be an integer, but got a list",
    "cluster: [1, 2]": "3:10: cluster: must be a mapping, but got a list",
    "cluster: {node: dgx1-v10}": "3:17: cluster.node: must be a known node, but got 'dgx1-v10' (did you mean 'dgx1-v100'?); a node of your own may be written inline, or added by dpsim catalogue add",
    "cluster: {node: 5}": "3:17: cluster.node: must be text or a mapping, but got 5",
    "cluster: {node: {gpus: 0}}": "3:24: cluster.node.gpus: must be at least 1, but got 0",
    "cluster: {node: {gpu: 1, gpus: 1}}": "3:18: cluster.node.gpu: is not a known key (did you mean 'gpus'?)",
    "cluster: {node: {memory: 1 GB}}": "3:17: cluster.node.gpus: is missing",
    "strategy: {sync: {kind: sspp}}": (
        "3:25: strategy.sync.kind: must be one of bsp, backup, ssp, but got 'sspp' (did you mean "
        "'ssp'?)"
    ),
    "strategy: {sync: {kind: 7}}": "3:25: strategy.sync.kind: must be one of bsp, backup, ssp, but got 7",
    "strategy: {sync: {kind: [ssp]}}": "3:25: strategy.sync.kind: must be one of bsp, backup, ssp, but got a list",
    "strategy: {sync: {staleness: 1}}": "3:18: strategy.sync.kind: is missing (known: bsp, backup, ssp)",
    "strategy: {sync: ssp}": "3:18: strategy.sync: must be a mapping, such as {kind: ssp}, but got 'ssp'",
    "strategy: {sync: {kind: ssp, staleness: -1}}": "3:41: strategy.sync.staleness: must be at least 0, but got -1",
    "strategy: {sync: {kind: ssp, timeout: 1 furlong}}": (
        "3:39: strategy.sync.timeout: must be a time with its unit, such as '1.5 us', "
        "but got '1 furlong', whose unit 'furlong' is not known"
    ),
    "strategy: {overlap: {kind: buckets, bucket_size: 0 B}}": (
        "3:50: strategy.overlap.bucket_size: must be greater than 0 or 'auto', but got '0 B'"
    ),
    "strategy: {overlap: {kind: buckets, bucket_size: atuo}}": (
        "3:50: strategy.overlap.bucket_size: must be an amount of data with its unit, such as '25 "
        "MiB', or 'auto', but got 'atuo'"
    ),
    "strategy: {overlap: {kind: buckets, first_bucket: 0 MB}}": (
        "3:51: strategy.overlap.first_bucket: must be greater than 0, but got '0 MB'"
    ),
    "disturbance: {faults: [{at: 1 s}, {link: nic0}]}": "3:35: disturbance.faults[1].at: is missing",
    "disturbance: {faults: nic0}": "3:23: disturbance.faults: must be a list, but got 'nic0'",
    "disturbance: {slow: {gpu0: fast}}": "3:28: disturbance.slow.gpu0: must be a number, but got 'fast'",
    "run: {network_model: round}": (
        "3:22: run.network_model: must be one of rounds, flows, auto, but got 'round' (did you "
        "mean 'rounds'?)"
    ),
    "run: {verbose: maybe}": "3:16: run.verbose: must be true or false, but got 'maybe'",
    "run: {steps: 5, warmup: 5}": "3:6: run: warmup must be less than steps, but got 5 of 5",
    f"calibration: {'x' * 999}\nrun: {{steps: {'x' * 999}}}": f"4:14: run.steps: must be an integer, but got '{'x' * 57}...'",
    f"cluster: {{network: {{bandwidth: [{'1, ' * 99}]}}}}": (
        "3:32: cluster.network.bandwidth: must be a data rate with its unit, such as '25 Gbit/s', "
        "but got a list, which has no unit"
    ),
    "name: b": "3:1: name: is given twice, first on line 1",
    "run: {steps: 1, warmup: 0, steps: 2}": "3:28: run.steps: is given twice, first on line 3",
    "run: &a {steps: 1}\nstrategy: *a": "3:10: strategy.steps: is not a known key (known: overlap, sync)",
}

DOCUMENTS = {
    "": "1:1: must be a mapping, such as 'name: my-cluster', but got an empty file",
    "\n \n": "1:1: must be a mapping, such as 'name: my-cluster', but got an empty file",
    "# only a comment\n": "1:1: must be a mapping, such as 'name: my-cluster', but got nothing",
    "---\n~\n": "2:1: must be a mapping, such as 'name: my-cluster', but got nothing",
    "- name: a\n": "1:1: must be a mapping, such as 'name: my-cluster', but got a list",
    "just words": "1:1: must be a mapping, such as 'name: my-cluster', but got 'just words'",
    "name: a\n---\nname: b\n": "2:1: must be one YAML document, but a second one starts here",
    "name: a\ncluster:\n\tnodes: 4\n": "3:1: must be indented with spaces, but got a tab",
    "name: {a: 1": "1:12: must be YAML, but expected ',' or '}', but got '<stream end>'",
    "name: 'a": "1:9: must be YAML, but found unexpected end of stream",
    "name: a: b": "1:8: must be YAML, but mapping values are not allowed here",
    "name: @a": "1:7: must be YAML, but found character '@' that cannot start any token",
    "a: b\n c: d": "2:3: must be YAML, but mapping values are not allowed here",
    'name: "\\U00110000"': "1:5: must be YAML, but the text from here on cannot be read: chr() arg not in range(0x110000)",
    'name: "\\ud800"': "1:7: name: must be text, but got half of a surrogate pair",
    "name: a\nx: \x00\x01": "2:4: must be text, but got the character '\\x00', as in a binary file",
    "name: !!python/object:os.system a": "1:7: name: must have no such tag, but got '!!python/object:os.system'",
    "name: !x a": "1:7: name: must have no such tag, but got '!x'",
    "name: !!int a": "1:7: name: must match its tag '!!int', but got 'a'",
    "name: *a": "1:7: name: must refer to an anchor above, but got '*a'",
    "name: &a [*a]": "1:11: name[0]: must not hold itself, but '*a' does",
    "a: &a {b: 1}\nc: {<<: *a}": (
        "2:5: c: must not merge mappings with '<<', which YAML 1.2 does not have: write the keys "
        "out"
    ),
    "[a, b]: c": "1:1: must have text as keys, but got an alias, a list or a mapping",
    f"name: {'9' * 5000}": "1:7: name: must have at most 400 digits, but got 5000",
    f"name: {'!' * 200_000} a": "1:1: must have lines of at most 100,000 characters, but got one of 200,008",
    "name: " + "[" * 1000: "1:107: must be nested at most 100 deep, but got more",
    "a: " + "{a: " * 1000: "1:401: must be nested at most 100 deep, but got more",
    "\n".join(
        f"a{i}: &a{i} [{f'*a{i - 1}' if i else 'x'}]" for i in range(200)
    ): "100:12: must be nested at most 100 deep, but got more",
    "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(20)): (
        "6:40: must hold at most 100,000 values, aliases expanded, but got more"
    ),
}


def _error(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        validate(from_text(text, "f.yaml"), Scenario)
    return str(caught.value)


@pytest.mark.parametrize(("text", "message"), VALUES.items())
def test_each_wrong_value_is_shown_at_its_place(text: str, message: str) -> None:
    assert _error(HEAD + text + "\n") == f"f.yaml:{message}"


@pytest.mark.parametrize(("text", "message"), DOCUMENTS.items(), ids=range(len(DOCUMENTS)))
def test_each_text_that_is_no_mapping_is_refused(text: str, message: str) -> None:
    assert _error(text) == f"f.yaml:{message}"


def test_missing_keys_are_shown_at_the_mapping_that_lacks_them() -> None:
    assert (
        _error("# first\ncluster: {}\n")
        == "f.yaml:2:1: name: is missing\nf.yaml:2:1: workload: is missing"
    )


def test_all_problems_are_shown_from_top_to_bottom() -> None:
    text = (
        GOOD.replace("nodes: 4", "nodes: 0")
        .replace("steps: 10", "stesp: 10")
        .replace("staleness: 2", "staleness: -2")
    )
    assert _error(text).splitlines() == [
        "f.yaml:3:10: cluster.nodes: must be at least 1, but got 0",
        "f.yaml:9:16: strategy.sync.staleness: must be at least 0, but got -2",
        "f.yaml:15:7: run.stesp: is not a known key (did you mean 'steps'?)",
    ]


def test_very_many_problems_are_cut_short() -> None:
    lines = _error(HEAD + "".join(f"key{i}: 1\n" for i in range(1000))).splitlines()
    assert len(lines) == SHOWN_PROBLEMS + 1
    assert lines[-1] == f"... and {1000 - SHOWN_PROBLEMS} more problems"


def _file_error(path: Path | str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load(path, Scenario)
    return str(caught.value)


def test_a_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/f.yaml").write_text(GOOD.replace("nodes: 4", "nodes: 0"))
    assert (
        _file_error("sub/f.yaml") == "sub/f.yaml:3:10: cluster.nodes: must be at least 1, but got 0"
    )


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    assert _file_error(tmp_path) == f"{tmp_path}: must be a YAML file, but got a directory"
    assert (
        _file_error(tmp_path / "no.yaml")
        == f"{tmp_path / 'no.yaml'}: must be a YAML file, but there is no such file"
    )
    assert _file_error("a\0b") == "'a\\x00b': must be a file's name"
    (tmp_path / "f").touch()
    assert (
        _file_error(tmp_path / "f" / "g")
        == f"{tmp_path / 'f' / 'g'}: must be a file that can be read, but: Not a directory"
    )


def test_100_mb_are_refused_in_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(100_000_000)  # sparse: takes no room
    start = time.perf_counter()
    assert _file_error(path) == f"{path}: must be at most 1,048,576 bytes, but got 100,000,000"
    assert time.perf_counter() - start < 0.05


def test_an_endless_file_is_read_no_further_than_the_limit() -> None:
    assert (
        _file_error("/dev/zero") == f"/dev/zero: must be at most {MAX_BYTES:,} bytes, but got more"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"name: a\nx: \xe4\n", ":2:4: must be text in UTF-8, but got the byte 0xe4"),
        (
            "name: \u00e4\u00f6".encode() + b"\xff",
            ":1:9: must be text in UTF-8, but got the byte 0xff",
        ),
        ("name: a".encode("utf-16"), ":1:1: must be text in UTF-8, but got the byte 0xff"),
        (b"\x89PNG\r\n\x1a\n\x00", ":1:1: must be text in UTF-8, but got the byte 0x89"),
        (
            b"\x7fELF\x02\x01\x00",
            ":1:1: must be text, but got the character '\\x7f', as in a binary file",
        ),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    assert _file_error(path) == f"{path}{message}"
