"""Reports of attention requests: one HTML file with its styles, scripts and numbers, which loads
nothing."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

import orjson

from server.web.page import asset, source_hash

_STYLES = ("common/base.css", "explorer/explorer.css")
_MODULES = (
    "common/sentences.js",
    "common/dom.js",
    "explorer/maps/maps.js",
    "explorer/maps/colour.js",
    "explorer/maps/heat.js",
    "explorer/maps/lines.js",
    "explorer/maps/worth.js",
    "explorer/maps/heads.js",
    "explorer/maps/panel.js",
    "explorer/report.js",
)
"""Modules of the report. A module follows those that it imports."""
_THEME = "common/theme.js"
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def report(answer: dict[str, Any]) -> bytes:
    """Returns the report of an answer of GET /attention with `numbers=uint16` and figures."""
    data = orjson.dumps(
        answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SERIALIZE_DATACLASS
    ).decode("utf-8")
    # Only "<" can end a script element or open a comment, and JSON can escape it.
    data = data.replace("<", "\\u003c")
    title = escape(f"{answer['source']['text']} \u2192 {answer['target']['text']}"[:200])
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        f"<title>{title} \u00b7 Attentive</title>\n<style>{_style()}</style>\n"
        f"<script>{asset(_THEME)}</script>\n</head>\n"
        f'<body class="report">\n<main id="report"></main>\n'
        f'<script type="application/json" id="look">{data}</script>\n'
        f'<script type="module">{_module()}</script>\n</body>\n</html>\n'
    )
    return page.encode("utf-8", "replace")


@cache
def policy() -> str:
    """Returns the Content-Security-Policy that allows only the scripts and the style of the
    report."""
    scripts = " ".join(map(source_hash, (asset(_THEME), _module())))
    style = source_hash(_style())
    return (
        f"default-src 'none'; script-src {scripts}; style-src {style}; img-src data: blob:; "
        "base-uri 'none'"
    )


@cache
def _module() -> str:
    """Returns the modules of the report as one module without imports. Their top-level names are
    distinct."""
    texts = (asset(name) for name in _MODULES)
    return "".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def _style() -> str:
    return "".join(asset(name) for name in _STYLES)
