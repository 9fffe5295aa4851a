import re

import pytest
from pydantic import ValidationError

from dpsim.hardware import Gpu, Link, gpus, links

TERA, GIGA = 1e12, 1e9


@pytest.mark.parametrize(
    ("name", "precision", "teraflops"),
    [
        ("k80", "fp32", 4.365),
        ("p100-sxm2", "fp32", 10.6),
        ("p100-sxm2", "fp16", 21.2),
        ("p100-pcie", "fp32", 9.3),
        ("p40", "int8", 47),
        ("v100", "fp32", 15.7),
        ("v100", "fp16", 125),
        ("v100-pcie", "fp32", 14),
        ("t4", "fp32", 8.1),
        ("t4", "fp16", 65),
        ("a100", "fp32", 19.5),
        ("a100", "tf32", 156),
        ("a100", "bf16", 312),
        ("h100-sxm", "fp32", 67),
        ("h100-sxm", "bf16", 989),
        ("h100-sxm", "fp8", 1979),
        ("h100-pcie", "bf16", 756),
        ("h200", "bf16", 989),
        ("tpu-v2", "bf16", 46),
        ("tpu-v3", "bf16", 123),
    ],
)
def test_peak_rates(name, precision, teraflops):
    assert gpus()[name].peak[precision].value == pytest.approx(teraflops * TERA, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "mebibytes", "gigabytes_per_s", "watts"),
    [
        ("k80", 11441, 240, 150),
        ("p100-sxm2", 16280, 732, 300),
        ("p40", 22919, 346, 250),
        ("v100-sxm2-16gb", 16160, 900, 300),
        ("v100-sxm2-32gb", 32510, 900, 300),
        ("t4", 15109, 320, 70),
        ("a100-sxm-40gb", 40536, 1555, 400),
        ("a100-sxm-80gb", 81251, 2039, 400),
        ("h100-sxm", 81559, 3350, 700),
        ("h100-pcie", 81559, 2000, 350),
        ("h200", 143771, 4800, 700),
        ("rtx-a4000", 16376, 448, 140),
        ("rtx-a4500", 20470, 640, 200),
        ("rtx-a5000", 24256, 768, 230),
        ("rtx-a5500", 24564, 768, 230),
        ("quadro-rtx-5000", 16125, 448, 230),
        ("rtx-4090-d", 24564, 1008, 425),
        ("l20", 46068, 864, 275),
        ("gtx-1070", 8119, 256, 150),
        ("rx-7900-xtx", 24560, 960, 355),
    ],
)
def test_memory_and_power(name, mebibytes, gigabytes_per_s, watts):
    gpu = gpus()[name]
    assert (gpu.memory.value, gpu.memory_bandwidth.value, gpu.power.value) == (
        mebibytes * 2**20,
        gigabytes_per_s * GIGA,
        watts,
    )


@pytest.mark.parametrize("name", [name for name in gpus() if not name.startswith("tpu")])
def test_a_makers_gigabytes_are_binary_and_not_all_of_them_can_be_used(name):
    """40 GB of an A100 are 42.5e9 bytes: 40 GiB of 2**30, less what its driver keeps."""
    memory = gpus()[name].memory
    (stated,) = re.findall(r"(\d+) Gi?B", memory.source)
    assert 0.92 < memory.value / (int(stated) * 2**30) < 1


@pytest.mark.parametrize("name", gpus())
def test_lower_precision_is_never_slower(name):
    peaks = gpus()[name].peak
    rates = [
        peaks[precision].value
        for precision in ("fp32", "tf32", "fp16", "fp8")
        if precision in peaks
    ]
    assert rates == sorted(rates)
    if "bf16" in peaks:
        # Only the MI100 has bf16 at half the rate of fp16.
        assert peaks["bf16"].value <= peaks["fp16" if "fp16" in peaks else "bf16"].value
        assert peaks["bf16"].value >= peaks["fp32"].value


def test_a_gpu_can_be_described_in_place():
    gpu = Gpu.model_validate(
        {"peak": {"fp32": "82.6 TFLOP/s"}, "memory": "24 GB", "memory_bandwidth": "1008 GB/s"}
    )
    assert (gpu.name, gpu.architecture, gpu.power) == ("inline", "other", None)
    assert gpu.peak["fp32"].value == 82.6 * TERA
    assert gpu.memory.source == "given in the scenario"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak": {}}, "at least 1 item"),
        ({"peak": {"fp64": "1 TFLOP/s"}}, "Input should be 'fp32'"),
        ({"memory": "0 GB"}, "greater than 0"),
        ({"memory": "24 GB/s"}, "must be an amount of data"),
        ({"cores": 3}, "Extra inputs are not permitted"),
    ],
)
def test_broken_gpus_are_refused(change, message):
    whole = {"peak": {"fp32": "1 TFLOP/s"}, "memory": "1 GB", "memory_bandwidth": "1 GB/s"}
    with pytest.raises(ValidationError) as caught:
        Gpu.model_validate(whole | change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"),
    [
        ("1GbE", 0.125e9),
        ("10GbE", 1.25e9),
        ("25GbE", 3.125e9),
        ("400GbE", 50e9),
        ("ib-fdr", 7e9),
        ("ib-edr", 12.5e9),
        ("ib-hdr", 25e9),
        ("ib-ndr", 50e9),
        ("nvlink1", 20e9),
        ("nvlink2", 25e9),
        ("nvlink3", 25e9),
        ("nvlink4", 25e9),
        ("qpi", 19.2e9),
    ],
)
def test_nominal_rates_of_links_in_one_direction(name, bytes_per_s):
    assert links()[name].rate.value == bytes_per_s


@pytest.mark.parametrize(("generation", "transfers"), [(3, 8e9), (4, 16e9), (5, 32e9)])
def test_pcie_carries_128_of_130_bits_on_16_lanes_of_which_nccl_counts_on_three_quarters_of_the_raw_rate(
    generation, transfers
):
    link = links()[f"pcie{generation}-x16"]
    assert link.rate.value == pytest.approx(transfers * 16 / 8 * 128 / 130, rel=1e-5)
    assert link.bandwidth == pytest.approx(0.75 * transfers * 16 / 8, rel=1e-3)


def test_half_the_lanes_carry_half():
    assert links()["pcie3-x8"].bandwidth == pytest.approx(
        links()["pcie3-x16"].bandwidth / 2, rel=1e-5
    )


def test_a_hop_between_cards_through_one_switch_takes_twice_the_latency_of_a_link():
    assert 2 * links()["ib-edr"].latency.value == 6e-6
    assert 2 * links()["25GbE"].latency.value == 50e-6


def test_a_dgx1_nvlink_carries_22_5_gigabytes_a_second():
    assert links()["nvlink2"].bandwidth == 22.5e9
    assert repr(links()["nvlink2"]) == "<Link nvlink2: 22.5 GB/s of 25 GB/s>"


def test_a_link_described_in_place_reaches_its_rate():
    link = Link.model_validate({"rate": "10 Gbit/s", "latency": "5 us"})
    assert (link.bandwidth, link.latency.value, link.achievable.source[:8]) == (
        1.25e9,
        5e-6,
        "assumed:",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"rate": "0 GB/s"},
        {"latency": "-1 us"},
        {"achievable": 1.5},
        {"achievable": 1e-300},
        {"latency": "5 GB"},
    ],
)
def test_broken_links_are_refused(change):
    with pytest.raises(ValidationError):
        Link.model_validate({"rate": "10 Gbit/s", "latency": "5 us"} | change)
