"""Rate limits behind proxies: X-Forwarded-For is used from trusted proxies only, and only the part
they added."""

from __future__ import annotations

import httpx
import pytest

from server.access.authentication import trusted_hosts
from server.config import Settings
from server.errors import SettingsError
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running

HELLO = {"q": "Hello", "source": "en", "target": "de"}


def statuses(url: str, *forwarded: str | None) -> list[int]:
    """Returns the statuses of consecutive requests with these X-Forwarded-For headers."""
    headers = [
        {} if addresses is None else {"X-Forwarded-For": addresses} for addresses in forwarded
    ]
    with httpx.Client(base_url=url, timeout=60) as client:
        return [
            client.post("/translate", json=HELLO, headers=header).status_code for header in headers
        ]


@pytest.mark.parametrize("trusted", ["", "192.0.2.1", "10.0.0.0/8, 2001:db8::/32"])
def test_the_header_of_an_untrusted_caller_is_ignored(trusted):
    with running(FakeEngine(), requests_per_minute=2, trusted_proxies=trusted) as (url, _):
        assert statuses(url, None, "198.51.100.1", "198.51.100.2") == [200, 200, 429]


@pytest.mark.parametrize("trusted", ["127.0.0.1", "192.0.2.1, 127.0.0.0/8"])
def test_callers_behind_a_trusted_proxy_are_counted_separately(trusted):
    with running(FakeEngine(), requests_per_minute=1, trusted_proxies=trusted) as (url, _):
        assert statuses(url, "198.51.100.1", "198.51.100.2", "198.51.100.1") == [200, 200, 429]
        # The form in which the proxy writes an IPv6 address makes no difference.
        assert statuses(url, "2001:db8:1:2::1", "[2001:db8:1:2::ff]:4711") == [200, 429]


def test_the_last_untrusted_address_is_the_caller():
    """Every proxy appends an address, so the addresses before it may be forged; a proxy without the
    header is a caller."""
    with running(FakeEngine(), requests_per_minute=1, trusted_proxies="127.0.0.1, 10.0.0.0/8") as (
        url,
        _,
    ):
        assert statuses(
            url, "203.0.113.5, 198.51.100.1", "203.0.113.6, 198.51.100.1, 10.1.2.3"
        ) == [200, 429]
        assert statuses(url, "203.0.113.5") == [200]
        assert statuses(url, None, "", ", ,") == [200, 429, 429]


def test_an_ipv4_proxy_is_trusted_on_a_socket_for_both_families():
    with running(FakeEngine(), host="::", requests_per_minute=1, trusted_proxies="127.0.0.1") as (
        url,
        _,
    ):
        assert statuses(url, "198.51.100.1", "198.51.100.2", "198.51.100.2") == [200, 200, 429]


def test_no_address_is_logged(caplog):
    with (
        running(FakeEngine(), trusted_proxies="127.0.0.1") as (url, _),
        caplog.at_level("DEBUG", "server"),
    ):
        assert statuses(url, "198.51.100.77") == [200]
    lines = [str(vars(record)) for record in caplog.records if record.name == "server.access"]
    assert lines
    assert "198.51.100.77" not in "".join(lines)


@pytest.mark.parametrize(
    "text", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "*, 10.0.0.1", "127.0.0.1;10.0.0.1"]
)
def test_an_invalid_setting_is_an_error(text):
    with pytest.raises(SettingsError, match="trusted-proxies"):
        trusted_hosts(text)


def test_addresses_networks_and_the_wildcard():
    assert trusted_hosts(Settings().trusted_proxies) == []
    assert trusted_hosts(" * ") == ["*"]
    assert trusted_hosts("10.0.0.0/8,,2001:db8::1") == [
        "10.0.0.0/8",
        "::ffff:10.0.0.0/104",
        "2001:db8::1/128",
    ]
