"""Who is counted behind proxies: X-Forwarded-For is believed from those that are trusted, and only their own part of it."""

from __future__ import annotations

import httpx
import pytest

from server.access.trusted_proxies import trusted_hosts
from server.config import Settings
from server.errors import SettingsError
from tests.support.fake_engine import FakeEngine
from tests.support.in_process import running

HELLO = {"q": "Hello", "source": "en", "target": "de"}


def statuses(url: str, *forwarded: str | None) -> list[int]:
    """One request after the other, each with this X-Forwarded-For."""
    headers = [{} if addresses is None else {"X-Forwarded-For": addresses} for addresses in forwarded]
    with httpx.Client(base_url=url) as client:
        return [client.post("/translate", json=HELLO, headers=header).status_code for header in headers]


@pytest.mark.parametrize("trusted", ["", "192.0.2.1", "10.0.0.0/8, 2001:db8::/32"])
def test_what_a_caller_says_of_itself_is_not_believed(trusted):
    with running(FakeEngine(), requests_per_minute=2, trusted_proxies=trusted) as (url, _):
        assert statuses(url, None, "198.51.100.1", "198.51.100.2") == [200, 200, 429]


@pytest.mark.parametrize("trusted", ["127.0.0.1", "192.0.2.1, 127.0.0.0/8"])
def test_callers_behind_a_trusted_proxy_are_counted_one_by_one(trusted):
    with running(FakeEngine(), requests_per_minute=1, trusted_proxies=trusted) as (url, _):
        assert statuses(url, "198.51.100.1", "198.51.100.2", "198.51.100.1") == [200, 200, 429]
        # An IPv6 customer is one caller however the proxy writes the address.
        assert statuses(url, "2001:db8:1:2::1", "[2001:db8:1:2::ff]:4711") == [200, 429]


def test_what_stands_before_a_proxy_s_own_word_is_the_caller_s_invention():
    """Proxies append: the caller is the last address that no trusted proxy has."""
    with running(FakeEngine(), requests_per_minute=1, trusted_proxies="127.0.0.1, 10.0.0.0/8") as (url, _):
        assert statuses(url, "203.0.113.5, 198.51.100.1", "203.0.113.6, 198.51.100.1, 10.1.2.3") == [200, 429]
        assert statuses(url, "203.0.113.5") == [200]


def test_a_proxy_that_names_nobody_is_counted_itself():
    with running(FakeEngine(), requests_per_minute=1, trusted_proxies="127.0.0.1") as (url, _):
        assert statuses(url, None, "", ", ,") == [200, 429, 429]


def test_an_ipv4_proxy_is_known_on_a_socket_for_both_families():
    with running(FakeEngine(), host="::", requests_per_minute=1, trusted_proxies="127.0.0.1") as (url, _):
        assert statuses(url, "198.51.100.1", "198.51.100.2", "198.51.100.2") == [200, 200, 429]


def test_no_address_is_logged(caplog):
    with running(FakeEngine(), trusted_proxies="127.0.0.1") as (url, _), caplog.at_level("DEBUG", "server"):
        assert statuses(url, "198.51.100.77") == [200]
    lines = [str(vars(record)) for record in caplog.records if record.name == "server.access"]
    assert lines
    assert "198.51.100.77" not in "".join(lines)


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "*, 10.0.0.1", "127.0.0.1;10.0.0.1"])
def test_a_mistake_is_told_rather_than_never_matched(text):
    with pytest.raises(SettingsError, match="trusted-proxies"):
        trusted_hosts(text)


def test_all_kinds_of_trust():
    assert trusted_hosts(Settings().trusted_proxies) == []
    assert trusted_hosts(" * ") == ["*"]
    assert trusted_hosts("10.0.0.0/8,,2001:db8::1") == ["10.0.0.0/8", "::ffff:10.0.0.0/104", "2001:db8::1/128"]
