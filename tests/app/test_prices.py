"""The cost on the first page: by the stated price, otherwise by the list price of the GPU."""

import pytest
from app_pages import QUICK, html, metrics

from app.presets import FIRST
from dpsim.hardware import gpus, list_price


def test_cost_is_per_token_for_text_and_names_the_source_of_the_price(open_page):
    text = metrics(open_page("what_if", preset="llama3-8b-8-h100-fsdp", set=list(QUICK)))
    cost, change = text["cost / B tokens"]
    assert cost.endswith(" USD")
    assert change is None
    rate = float(text["tokens / s"][0].replace(",", ""))
    assert float(cost.split()[0].replace(",", "")) == pytest.approx(
        8 * 4.916 / 3600 / rate * 1e9, rel=0.01
    )
    listed = open_page("what_if", preset="resnet50-16-v100-local-sgd", set=list(QUICK))
    price = list_price(gpus()["v100-pcie-16gb"])
    assert f"{16 * price.value:.4g} USD an hour ({price.source})" in html(listed)
    rate = float(metrics(listed)["samples / s"][0].replace(",", ""))
    paid = float(metrics(listed)["cost / M samples"][0].removesuffix(" USD"))
    assert paid == pytest.approx(16 * price.value / 3600 / rate * 1e6, rel=0.01)
    free = open_page(
        "what_if",
        preset="resnet50-16-v100-local-sgd",
        set=[*QUICK, "cluster.node=single-gpu", "cluster.gpu=titan-v"],
    )
    assert metrics(free)["cost / M samples"][0] == "no price"
    assert "set one under Price and power" in html(free)


def test_another_gpu_has_its_list_price(open_page):
    page = open_page("what_if", preset=FIRST, set=list(QUICK))
    assert "an hour (given in the scenario)" in html(page)
    page.selectbox(key="entry GPU").set_value("h100-sxm").run()
    price = list_price(gpus()["h100-sxm"])
    assert f"{32 * price.value:.4g} USD an hour ({price.source})" in html(page)
