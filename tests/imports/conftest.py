import pytest
from imported import DATA


@pytest.fixture
def data():
    """The bytes of a file in data/."""
    return lambda name: (DATA / name).read_bytes()


@pytest.fixture
def dpsim(monkeypatch, capsys):
    """Runs a command in this process; answers exit code, stdout and stderr."""
    from dpsim import cli

    def call(*args):
        monkeypatch.setattr("sys.argv", ["dpsim", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return exit_.value.code or 0, captured.out, captured.err

    return call
