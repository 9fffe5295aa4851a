"""The flop counter on torch twins of catalogue models, and what a user's module becomes."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import WorkloadConfig, build_model
from dpsim.workload.torch_trace import check_factory, trace

TWINS = str(Path(__file__).parent / "twins.py")
missing = find_spec("torch") is None and os.environ.get("CI") != "true"
needs_torch = [
    pytest.mark.torch,
    pytest.mark.skipif(missing, reason="torch is not installed: pip install -e '.[validate]'"),
    pytest.mark.filterwarnings("default"),  # those of torch are not ours
]


def with_torch(test):
    for mark in needs_torch:
        test = mark(test)
    return test


@pytest.fixture
def module(tmp_path):
    """Traces the class ``Net`` that a text defines."""

    def call(text, shape=(4,), dtype="float32"):
        path = tmp_path / "net.py"
        path.write_text("import torch\nfrom torch import nn\n\n" + text)
        return trace(f"{path}:Net", shape, dtype)

    return call


@with_torch
@pytest.mark.parametrize(
    ("twin", "shape", "dtype", "name"),
    [
        ("resnet50", (3, 224, 224), "float32", "resnet50"),
        ("Bert", (128,), "int64", "bert-base"),
        ("Gpt2", (1024,), "int64", "gpt2"),
    ],
)
def test_the_flop_counter_agrees_with_the_catalogue(twin, shape, dtype, name):
    traced, built = trace(f"{TWINS}:{twin}", shape, dtype), build_model(name)
    assert traced.parameters == built.parameters
    assert sorted(traced.tensors().elements) == pytest.approx(sorted(built.tensors().elements))
    assert traced.forward_flop == pytest.approx(built.forward_flop, rel=0.01)
    assert traced.backward_flop == pytest.approx(built.backward_flop, rel=0.01)
    assert traced.notes == ()


@with_torch
def test_traffic_and_activations_of_a_traced_resnet_are_near_the_catalogue_s():
    traced, built = trace(f"{TWINS}:resnet50", (3, 224, 224)), build_model("resnet50")
    assert traced.activations == pytest.approx(built.activations, rel=0.05)
    assert traced.vector("forward_traffic").sum() == pytest.approx(
        built.vector("forward_traffic").sum(), rel=0.05
    )
    assert traced.vector("backward_traffic").sum() == pytest.approx(
        built.vector("backward_traffic").sum(), rel=0.2
    )


@with_torch
def test_each_module_is_a_layer_with_its_own_backward(module):
    model = module(
        "class Net(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
    )
    assert [(layer.name, layer.kind, layer.parameters) for layer in model.layers] == [
        ("0", "linear", (32, 8)),
        ("1", "elementwise", ()),
        ("2", "linear", (16, 2)),
    ]
    assert [layer.forward_flop for layer in model.layers] == [64, 0, 32]
    assert [layer.backward_flop for layer in model.layers] == [
        64,
        0,
        64,
    ]  # nothing wants the gradient of the input
    assert [layer.activations for layer in model.layers] == [
        4,
        8,
        0,
    ]  # the ReLU's output is the next layer's input
    assert model.sample == "4 input"


@with_torch
def test_what_a_module_computes_itself_is_its_layer(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(4, 6)\n"
        "        self.w = nn.Parameter(torch.empty(6, 5))\n"
        "    def forward(self, x):\n"
        "        return {'out': (self.a(x) @ self.w).sigmoid()}\n"
    )
    layers = {layer.name: layer for layer in model.layers}
    assert (layers["Net"].parameters, layers["Net"].forward_flop, layers["Net"].backward_flop) == (
        (30,),
        60,
        120,
    )
    assert (layers["a"].parameters, layers["a"].forward_flop) == ((24, 6), 48)


@with_torch
def test_tied_weights_are_counted_once(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table, self.head = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)\n"
        "        self.head.weight = self.table.weight\n"
        "    def forward(self, x):\n"
        "        return self.head(self.table(x))\n",
        (3,),
        "int64",
    )
    assert [(layer.kind, layer.parameters, layer.borrowed) for layer in model.layers] == [
        ("embedding", (400,), 0),
        ("linear", (), 400),
    ]


@with_torch
def test_an_lstm_counts_its_products(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.rnn = nn.LSTM(4, 6, batch_first=True)\n"
        "    def forward(self, x):\n"
        "        return self.rnn(x)[0]\n",
        (5, 4),
    )
    assert model.parameters == 4 * 6 * (4 + 6) + 2 * 24
    assert model.forward_flop == 2 * 5 * 24 * (4 + 6)


@with_torch
def test_operators_without_a_formula_and_modules_that_never_run_are_named(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return torch.linalg.solve_triangular(torch.eye(4, device=x.device), self.a(x)[:, "
        ":, None], upper=True)\n"
    )
    assert "b has parameters but was not run" in model.notes
    assert (
        "operator aten.linalg_solve_triangular has no FLOP formula and counts none" in model.notes
    )
    assert model.parameters == 40


@with_torch
def test_no_memory_is_taken_for_weights(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(1_000_000, 1_000_000)\n"
        "    def forward(self, x):\n"
        "        return self.a(x)\n",
        (1_000_000,),
    )
    assert model.parameters == 10**12 + 10**6


@with_torch
def test_a_scenario_s_module_is_built():
    source = {"torch": f"{TWINS}:resnet50", "input": [3, 64, 64]}
    workload = WorkloadConfig.model_validate({"model": source, "batch_per_gpu": 8})
    assert workload.build().parameters == 25_557_032


@with_torch
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no')", "cannot be imported: no"),
        ("Nat = 1", "has no Net"),
        ("Net = 1", "must be a function or a class, but is int"),
        ("def Net(): return 1", "must return a torch.nn.Module, but returned int"),
        ("def Net(): raise ValueError('a\\nb')", "cannot be called: a b"),
        ("def Net(): raise SystemExit(0)", "cannot be called: it calls sys.exit"),
        ("def Net(): return nn.Linear(5, 1)", "cannot be traced on the meta device: "),
        (
            "class Net(nn.Module):\n    def forward(self, x): return x",
            "must return tensors that depend on its parameters",
        ),
        (
            "class Net(nn.Linear):\n"
            "    def __init__(self): super().__init__(4, 4)\n"
            "    def forward(self, x): return super().forward(x) * x.sum().item()",
            "cannot be traced on the meta device: ",
        ),
    ],
)
def test_modules_that_cannot_be_traced(module, tmp_path, text, message):
    with pytest.raises(DpsimError) as caught:
        module(text)
    assert str(caught.value).startswith(f"{tmp_path}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@with_torch
def test_a_file_or_module_that_is_not_there(tmp_path):
    with pytest.raises(
        DpsimError, match=r"none\.py: must be a Python file, but there is none of this name"
    ):
        trace(f"{tmp_path}/none.py:build", (4,))
    with pytest.raises(
        DpsimError,
        match=r"no_such_package\.x:build: cannot be imported: No module named 'no_such_package'",
    ):
        trace("no_such_package.x:build", (4,))


@pytest.mark.parametrize(
    "factory", ["build", ":build", "a:", "a b:c", "a.:c", "a:c d", "../a:b", "a/b:c", ""]
)
def test_names_that_are_none(factory):
    with pytest.raises(
        DpsimError, match=r"must be package\.module:factory or file\.py:factory, but got"
    ):
        check_factory(factory)


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        DpsimError, match=r"^a torch model needs torch; .*: pip install -e '\.\[validate\]'$"
    ):
        trace("a.b:c", (4,))
