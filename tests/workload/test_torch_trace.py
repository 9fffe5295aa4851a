"""The flop counter on torch twins of catalogue models, and what a user's module becomes."""

import sys
from functools import cache
from pathlib import Path

import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import WorkloadConfig, build_model
from dpsim.workload.torch_factory import check_factory
from dpsim.workload.torch_trace import trace

TWINS = str(Path(__file__).parent / "twins.py")
needs_torch = [
    pytest.mark.torch,
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


traced_once = cache(trace)


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
    traced, built = traced_once(f"{TWINS}:{twin}", shape, dtype), build_model(name)
    assert traced.parameters == built.parameters
    assert sorted(traced.tensors.elements) == pytest.approx(sorted(built.tensors.elements))
    assert traced.forward_flop == pytest.approx(built.forward_flop, rel=0.01)
    assert traced.backward_flop == pytest.approx(built.backward_flop, rel=0.01)
    assert traced.notes == ()


@with_torch
def test_traffic_and_activations_of_a_traced_resnet_are_near_the_catalogue_s():
    traced = traced_once(f"{TWINS}:resnet50", (3, 224, 224), "float32")
    built = build_model("resnet50")
    assert traced.vector("over_batch").sum() == built.vector("over_batch").sum() == 53
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
def test_weights_that_need_no_gradient_are_frozen(module):
    model = module(
        "class Net(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))\n"
        "        self[0].requires_grad_(False)\n"
        "        self[2].requires_grad_(False)\n"
    )
    assert [layer.frozen for layer in model.layers] == [True, False, True]
    assert model.trained == 8 * 8 + 8
    # None before what is trained, only by its weights, and only by the input behind it.
    assert [layer.backward_flop for layer in model.layers] == [0, 2 * 64, 2 * 16]


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
        "operator aten.linalg_solve_triangular has no FLOP formula, so its FLOP are not counted"
        in model.notes
    )
    assert model.parameters == 40


@with_torch
def test_many_modules_that_never_run_are_one_line(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(4, 4)\n"
        "        self.idle = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))\n"
        "    def forward(self, x):\n"
        "        return self.a(x)\n"
    )
    assert model.notes == ("idle.0, idle.1, idle.2 and 9 more have parameters but were not run",)


@with_torch
@pytest.mark.parametrize("written", [True, False])
def test_a_projection_that_its_parent_multiplies_by_has_been_used(module, written):
    blocks, width, tokens = 12, 16, 10
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.blocks = nn.ModuleList(\n"
        f"            nn.MultiheadAttention({width}, 4, batch_first=True)\n"
        f"            for _ in range({blocks}))\n"
        "    def forward(self, x):\n"
        "        for block in self.blocks:\n"
        f"            x = block(x, x, x, need_weights={written})[0]\n"
        "        return x\n",
        (tokens, width),
    )
    assert model.notes == ()
    assert model.parameters == blocks * 4 * (width * width + width)
    products = 4 * 2 * tokens * width * width + 4 * tokens * tokens * width
    assert model.forward_flop == blocks * products


ATTENTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)
    def forward(self, x):
        def heads(y, n):
            return y.view(len(x), -1, n, 8).transpose(1, 2)
        out = nn.functional.scaled_dot_product_attention(
            heads(self.q(x), 4), heads(self.k(x), 2), heads(self.v(x), 2),
            is_causal=True, enable_gqa=True)
        return out.transpose(1, 2).flatten(2)
"""


@with_torch
def test_attention_is_the_fused_kernel_that_writes_no_scores(module):
    tokens, width = 64, 32
    root = {layer.name: layer for layer in module(ATTENTION, (tokens, width)).layers}["Net"]
    assert root.kind == "attention"
    assert root.forward_flop == 4 * tokens**2 * width
    assert root.backward_flop == 10 * tokens**2 * width
    assert root.forward_traffic < 4 * tokens**2  # only the scores of four heads


@with_torch
@pytest.mark.parametrize(
    ("asks", "forward"),
    [
        ("item", "y * 2 if (x != 0).all() else y"),
        ("item", "y[:, : int((x != 0).sum())]"),
        ("nonzero", "y[(x > 0).any(-1)]"),
        ("nonzero", "y.index_put(((x > 0).any(-1),), torch.zeros(8, device=x.device))"),
        ("nonzero", "y.flatten(0, 1)[torch.where((x > 0).any(-1).flatten())[0]]"),
        ("masked_select", "y.masked_select((x > 0).any(-1, keepdim=True))"),
    ],
)
def test_a_forward_pass_that_asks_for_data_is_traced_and_noted(module, asks, forward):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(4, 8)\n"
        "    def forward(self, x):\n"
        f"        y = self.a(x)\n        return {forward}\n",
        (5, 4),
    )
    assert model.notes == (
        f"assumed: the forward pass asks for data ({asks}), which a trace does not have: flags are "
        "assumed not set, and sizes as large as possible",
    )
    assert model.forward_flop == 2 * 5 * 4 * 8
    assert model.backward_flop == 2 * 5 * 4 * 8


@with_torch
def test_grouped_products_of_any_precision_count_each_token_once(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first = nn.Linear(16, 16)\n"
        "        self.experts = nn.Parameter(torch.empty(4, 16, 32))\n"
        "    def forward(self, x):\n"
        "        tokens = self.first(x).flatten(0, 1)\n"
        "        ends = torch.zeros(4, dtype=torch.int32, device=x.device)\n"
        "        return torch._grouped_mm(tokens, self.experts, offs=ends)\n",
        (10, 16),
    )
    root = {layer.name: layer for layer in model.layers}["Net"]
    assert (root.kind, root.parameters) == ("linear", (4 * 16 * 32,))
    assert root.forward_flop == 2 * 10 * 16 * 32
    assert root.backward_flop == 2 * root.forward_flop
    assert root.activations == 10 * 16  # its input


@with_torch
def test_layers_that_are_dropped_at_random_are_all_traced(module):
    model = module(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(40))\n"
        "    def forward(self, x):\n"
        "        for block in self.blocks:\n"
        "            x = block(x) if torch.rand([]) > 0.1 else x\n"
        "        return x\n"
    )
    assert model.notes == ()
    assert model.forward_flop == 40 * 2 * 4 * 4


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
def test_a_scenario_s_module_is_built(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(64, 10)\n")
    source = {"torch": f"{path}:build", "input": [3, 64]}
    workload = WorkloadConfig.model_validate({"model": source, "batch_per_gpu": 8})
    assert workload.build().parameters == 65 * 10


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
            "    def forward(self, x): return super().forward(x) * x.tolist()[0][0]",
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
        DpsimError, match=r"none\.py: must be a Python file, but there is no such file"
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


@with_torch
def test_a_trace_that_takes_long_says_how_far_it_is(module, monkeypatch, capsys):
    seconds = iter(range(1000))
    monkeypatch.setattr("dpsim.workload.torch_trace.monotonic", lambda: next(seconds))
    module(
        "class Net(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
    )
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.endswith("net.py:Net with torch: forward pass, 2 of 4 modules seen after 3 s")
    assert second.endswith("backward pass, 4 of 4 modules seen after 13 s")
