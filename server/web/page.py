"""Pages with their styles and their first script inline, so that a browser paints them after one request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from server.web.assets import PAGE_POLICY, Asset, asset_of, assets, source_hash

_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="/static/([^"]+)"></script>')


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the Content-Security-Policy that allows its inline styles and scripts by their hashes."""

    asset: Asset
    policy: str


@cache
def page(name: str) -> Page:
    """Returns a page of this package, such as "translator/index.html". Modules are not inlined."""
    html = assets()[name]
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def inlined(kind: str, found: re.Match[str]) -> str:
        text = assets()[found[1]].text
        hashes[kind].append(source_hash(text))
        return f"<{kind}>{text}</{kind}>"

    text = _STYLE.sub(lambda found: inlined("style", found), html.text)
    text = _SCRIPT.sub(lambda found: inlined("script", found), text)
    policy = PAGE_POLICY
    for kind, allowed in hashes.items():
        policy = policy.replace(f"{kind}-src 'self'", " ".join([f"{kind}-src 'self'", *allowed]))
    return Page(asset_of(text.encode("utf-8"), html.media), policy)
