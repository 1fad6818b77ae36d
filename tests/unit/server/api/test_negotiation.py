"""The media type that the header `Accept` chooses."""

from __future__ import annotations

import pytest

from server.api.negotiation import preferred

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "text/html"),
        (BROWSER["Accept"], "text/html"),
        ("text/html;q=0.1, application/json", "application/json"),
        ("image/*", "application/json"),
        ("text/*;q=nonsense", "application/json"),
    ],
)
def test_preferred(accept: str, wanted: str):
    assert preferred(accept, ("application/json", "text/html")) == wanted
