"""The path of one word through the model: its numbers are those of GET /attention/tensors, and each
leads to its request."""

from __future__ import annotations

import re
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CLOSE = 0.002
"""Numbers have three digits."""


@pytest.fixture
def path(explorer: Any) -> Any:
    explorer.click("#tab-works")
    explorer.wait_for_selector("#works-logits .doubts li")
    return explorer


def number(text: str) -> float:
    return float(text.replace("−", "-").removesuffix("\u00a0%").replace("<", ""))


def request_of(page: Any, button: Any) -> tuple[str, dict[str, Any]]:
    """Returns the name of the tensor behind a button, and the answer of the request that its dialog
    shows."""
    button.click()
    page.wait_for_selector("#dialog[open]")
    title, command = page.inner_text("#dialog-title"), page.inner_text("#dialog-body")
    address = re.search(r"'(http\S+)'$", command)[1]
    assert page.get_attribute("#dialog-open", "href") == address
    page.click("#dialog-close")
    return title, page.request.get(address).json()


def test_every_number_of_a_head_leads_to_its_tensor(path: Any) -> None:
    for station, name, column in (("head", "self", 1), ("cross", "cross", 1)):
        host = path.locator(f"#works-{station}")
        title, answer = request_of(path, host.locator("thead button").nth(column))
        [tensor] = answer["tensors"].values()
        shape = ", ".join(map(str, tensor["shape"]))
        assert title == f"{name}.scores ({shape})"
        shown = host.locator("tbody td:nth-child(2)").all_inner_texts()
        assert len(shown) == len(answer["keys"])
        for text, exact in zip(shown, tensor["values"][0], strict=True):
            assert abs(number(text) - exact) < CLOSE
        weights = [number(text) for text in host.locator("tbody td:nth-child(3)").all_inner_texts()]
        assert abs(sum(weights) - 100) < len(weights) * 0.5


def test_mean_and_variance_and_logits_are_those_of_the_engine(path: Any) -> None:
    for place, name in enumerate(("mean", "variance")):
        button = path.locator("#works-norm .figure").nth(place)
        shown = number(button.inner_text().split()[-1])
        _, answer = request_of(path, button)
        [tensor] = answer["tensors"].values()
        assert abs(shown - tensor["values"][0]) < CLOSE, name
    first = path.locator("#works-logits li").first
    shares = [number(text) for text in path.locator("#works-logits .n").all_inner_texts()[1:]]
    assert abs(sum(shares) - 100) < len(shares) * 0.5
    share = number(first.locator(".n").inner_text())
    path.get_by_role("slider", name="top-k").fill("1")
    assert (
        path.locator("#works-logits li").count() == 1
        and number(first.locator(".n").inner_text()) == 100
    )
    path.get_by_role("slider", name="top-k").fill("8")
    path.get_by_role("slider", name="Temperature").fill("30")
    assert number(first.locator(".n").inner_text()) != share


def test_what_is_masked_has_no_weight_and_the_choice_is_kept(path: Any) -> None:
    last = path.locator("#works-mask tbody tr").last
    sync_api.expect(last).to_contain_text("−∞")
    sync_api.expect(last).to_contain_text("0\u00a0%")
    path.get_by_label("Follow", exact=True).select_option("1")
    sync_api.expect(path.locator("#works-pieces .at")).to_contain_text("the")
    sync_api.expect(path.locator("#works-head")).to_contain_text("“▁the”")
    path.reload()
    sync_api.expect(path.locator("#works-head")).to_contain_text("“▁the”")
    path.locator(".station .next").first.click()
    sync_api.expect(path.locator("#works-batch .pad").first).to_be_visible()
