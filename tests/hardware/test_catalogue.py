import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from dpsim.base.errors import UnknownNameError
from dpsim.hardware import (
    USER_GIVEN,
    Catalogue,
    Gpu,
    Link,
    Node,
    Sourced,
    gpu_named_in,
    gpus,
    links,
    nodes,
    normalised,
    pcie_rate,
    typical_gpus,
)

CATALOGUES = {"gpus": (gpus, Gpu), "links": (links, Link), "nodes": (nodes, Node)}
NAMES = [name for catalogue, _ in CATALOGUES.values() for name in catalogue()]


def sourced(model):
    """All sourced values in a model, however deep."""
    if isinstance(model, Sourced):
        yield model
    elif isinstance(model, BaseModel):
        for field in type(model).model_fields:
            yield from sourced(getattr(model, field))
    elif isinstance(model, dict):
        for value in model.values():
            yield from sourced(value)
    elif isinstance(model, (tuple, list)):
        for value in model:
            yield from sourced(value)


@pytest.mark.parametrize("kind", CATALOGUES)
class TestEveryEntry:
    def test_loads_under_its_file_name_and_is_described(self, kind):
        catalogue, model = CATALOGUES[kind]
        for name in catalogue():
            entry = catalogue()[name]
            assert isinstance(entry, model), name
            assert entry.name == name == normalised(name)
            assert len(entry.description) > 10, name

    def test_each_number_has_a_source(self, kind):
        catalogue, _ = CATALOGUES[kind]
        for name in catalogue():
            values = list(sourced(catalogue()[name]))
            assert len(values) >= 3, name
            for value in values:
                assert len(value.source) >= 10, name
                assert value.source != USER_GIVEN, name

    def test_is_found_by_its_aliases_without_parsing_its_file(self, kind):
        catalogue, model = CATALOGUES[kind]
        for name in catalogue():
            aliases = catalogue()[name].aliases
            unread = Catalogue("entry", kind, model)
            assert [unread.canonical(alias) for alias in aliases] == [name] * len(aliases)

    def test_reads_back_from_its_json(self, kind):
        catalogue, model = CATALOGUES[kind]
        for name in catalogue():
            entry = catalogue()[name]
            assert model.model_validate_json(entry.model_dump_json()) == entry, name


@pytest.mark.parametrize("kind", CATALOGUES)
def test_no_name_is_used_twice(kind):
    catalogue = CATALOGUES[kind][0]()
    names = [
        *catalogue,
        *(normalised(alias) for name in catalogue for alias in catalogue[name].aliases),
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("catalogue", "written", "name"),
    [
        (links, "25GbE", "ethernet-25g"),
        (links, "25 GbE", "ethernet-25g"),
        (links, "PCIe 3 x16", "pcie3-x16"),
        (links, "IB_EDR", "ib-edr"),
        (links, "InfiniBand HDR", "ib-hdr"),
        (gpus, "V100", "v100-sxm2-16gb"),
        (gpus, "V100-SXM2-32GB", "v100-sxm2-32gb"),
        (gpus, "A100-SXM4-80GB", "a100-sxm-80gb"),
        (gpus, "H100-SXM5-80GB", "h100-sxm"),
        (gpus, "Titan X", "titan-x-pascal"),
        (gpus, "RTX 4090", "rtx-4090"),
        (nodes, "DGX-A100", "dgx-a100"),
        (nodes, "DGX H100", "dgx-h100"),
        (nodes, "DGX-1V", "dgx1-v100"),
    ],
)
def test_names_are_found_as_people_write_them(catalogue, written, name):
    assert written in catalogue()
    assert catalogue()[written].name == name
    assert catalogue()[written] is catalogue()[name]


@given(name=st.sampled_from(NAMES), spaces=st.integers(0, 20))
def test_case_spaces_and_underscores_do_not_matter(name, spaces):
    assert normalised((name[:spaces] + " " + name[spaces:]).upper().replace("-", "_")) == name


PROMISED_NODES = (
    "dgx-1, dgx1-p100, dgx1-v100, dgx-a100, dgx-h100, pcie-8gpu, single-gpu, "
    "p4d.24xlarge, p4de.24xlarge, p5.48xlarge, g4dn.12xlarge, ND A100 v4, NDm A100 v4, "
    "ND H100 v5, ND H200 v5, a3-mega, BM.GPU4.8, BM.GPU.A100-v2.8, BM.GPU.H100.8, "
    "Titan X box, P40 box, TPU v2, TPU v3"
)
PROMISED_GPUS = (
    "k80, titan-x-pascal, titan-x-maxwell, p100, p40, v100, t4, a100-40gb, a100-80gb, h100, "
    "h200, tpu-v2, tpu-v3"
)
PROMISED_LINKS = (
    "1GbE, 10GbE, 25GbE, 40GbE, 50GbE, 100GbE, 200GbE, 400GbE, ib-fdr, ib-edr, ib-hdr, ib-ndr, "
    "pcie3-x16, pcie4-x16, pcie5-x16, nvlink1, nvlink2, nvlink3, nvlink4, efa, gpudirect-tcpxo, "
    "tpu-v3-ici"
)


@pytest.mark.parametrize(
    ("catalogue", "promised"),
    [(nodes, PROMISED_NODES), (gpus, PROMISED_GPUS), (links, PROMISED_LINKS)],
)
def test_the_catalogue_holds_what_it_promises(catalogue, promised):
    missing = [name for name in promised.split(", ") if name not in catalogue()]
    assert missing == []


@pytest.mark.parametrize(
    ("catalogue", "name", "message", "what"),
    [
        (gpus, "V10", "must be a known GPU, but got 'V10' (did you mean 'v100'?)", "GPU"),
        (links, "25GbEt", "must be a known link, but got '25GbEt' (did you mean '25gbe'?)", "link"),
        (
            nodes,
            "dgx-h10",
            "must be a known node, but got 'dgx-h10' (did you mean 'dgx-h100'?)",
            "node",
        ),
    ],
)
def test_an_unknown_name_gets_the_nearest_known_one(catalogue, name, message, what):
    assert name not in catalogue()
    with pytest.raises(UnknownNameError) as caught:
        catalogue()[name]
    own = f"; a {what} of your own may be written inline, or added by dpsim catalogue add"
    assert str(caught.value) == message + own


def test_a_member_is_not_a_path():
    assert "../gpus/k80" not in links()
    assert 25 not in links()


def test_no_two_gpus_have_one_pci_number():
    numbers = [number for name in gpus() for number in gpus()[name].pci_ids]
    assert len(numbers) > 50
    assert len(numbers) == len(set(numbers))


def test_a_compute_capability_has_one_typical_gpu_with_nvlinks_and_one_without():
    kinds = [(gpu.capability, gpu.nvlink_fabric is None) for gpu in typical_gpus()]
    assert sorted(kinds) == sorted(set(kinds))
    nvidias = (gpus()[name] for name in gpus() if gpus()[name].capability)
    assert {gpu.capability for gpu in nvidias} == {capability for capability, _ in kinds}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("LambdaCloud H100 80GB PCIe Gen5", "h100-pcie"),
        ("8 x A100 80 GB PCIe", "a100-pcie-80gb"),
        ("h100_sxm", "h100-sxm"),
        ("RTX 2080Ti cluster", "rtx-2080-ti"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("V100-SXM3-32GB (450W, DGX-2H)", "v100-sxm3-32gb"),
        ("Tesla P100-PCIE-16GB", "p100-pcie"),
        ("A10G (from PCI id 2237)", "a10g"),
    ],
)
def test_a_gpu_is_found_in_the_words_of_a_table(words, name):
    assert gpu_named_in(words).name == name


def test_of_several_gpus_in_a_text_the_one_with_the_slowest_memory_counts():
    assert gpus().named_in("unknown (V100/T4 class)") == ["v100-sxm2-16gb", "t4"]
    assert gpu_named_in("unknown (V100/T4 class)").name == "t4"


def test_a_machine_s_name_does_not_change_the_gpu_named_beside_it():
    """p4d has A100s; NDm A100 v4 has those of 80 GB, though "A100" means those of 40 GB."""
    in_catalogue = [nodes()[name] for name in nodes() if nodes()[name].gpu.name in gpus()]
    assert len(in_catalogue) > 50
    for node in in_catalogue:
        for alias in (node.name, *node.aliases):
            assert gpu_named_in(f"{node.gpu.name} ({alias})") == node.gpu, alias


@pytest.mark.parametrize("words", ["Ascend 910", "", "XA100", "4090000 images"])
def test_a_text_without_a_gpu_names_none(words):
    assert gpu_named_in(words) is None


@given(text=st.text(max_size=60))
def test_any_text_can_be_looked_through(text):
    assert set(gpus().named_in(text)) <= set(gpus())


@pytest.mark.parametrize(
    ("generation", "lanes", "rate"), [(3, 16, 15.7538e9), (4, 8, 15.75385e9), (1, 4, 1e9)]
)
def test_a_pcie_link_has_its_lanes_share_of_sixteen(generation, lanes, rate):
    assert pcie_rate(generation, lanes) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in links() if name.startswith("pcie")])
def test_links_of_eight_lanes_agree_with_those_of_sixteen(name):
    generation, lanes = name.removeprefix("pcie").split("-x")
    assert links()[name].rate.value == pytest.approx(
        pcie_rate(int(generation), int(lanes)), rel=1e-5
    )
