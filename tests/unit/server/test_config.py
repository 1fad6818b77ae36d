"""Settings: precedence of flags, variables and defaults, and validation."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from server.config import CHECKOUT, Settings, add_flags, default_weights, unknown_variables
from server.errors import SettingsError


def read(*flags: str, **variables: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return Settings.read(parser.parse_args(flags), variables)


def test_a_flag_overrides_a_variable_and_a_variable_the_default():
    assert read().port == 8000
    assert read(ATTENTIVE_PORT="9000").port == 9000
    assert read("--port", "9001", ATTENTIVE_PORT="9000").port == 9001
    assert read(ATTENTIVE_PORT="").port == 8000


def test_a_variable_with_file_names_the_file_of_a_value(tmp_path):
    secret, empty, binary = tmp_path / "secret", tmp_path / "empty", tmp_path / "binary"
    secret.write_text("rediss://:p4ss@redis:6379\n", encoding="utf-8")
    empty.touch()
    binary.write_bytes(b"\xff")
    assert read(ATTENTIVE_STATE_FILE=str(secret)).state == "rediss://:p4ss@redis:6379"
    assert read(ATTENTIVE_STATE_FILE=str(empty)).state == read(ATTENTIVE_STATE_FILE="").state == ""
    assert read(ATTENTIVE_STATE_FILE=str(secret), ATTENTIVE_STATE="memory").state == "memory"
    assert read("--state", "memory", ATTENTIVE_STATE_FILE=str(secret)).state == "memory"
    for path in (tmp_path, tmp_path / "absent", binary):
        with pytest.raises(SettingsError, match=r"ATTENTIVE_STATE_FILE: .* cannot be read: "):
            read(ATTENTIVE_STATE_FILE=str(path))


def test_variables_that_are_no_setting_are_named():
    assert (
        unknown_variables(
            {"ATTENTIVE_PORT": "1", "ATTENTIVE_STATE_FILE": "a", "PORT": "2", "ATTENTIVE": "3"}
        )
        == []
    )
    assert unknown_variables({"ATTENTIVE_KEY_REQUIRD": "true", "ATTENTIVE_42": ""}) == [
        "ATTENTIVE_42 is not a setting and has no effect; `attentive serve --help` lists all "
        "settings.",
        "ATTENTIVE_KEY_REQUIRD is not a setting and has no effect; did you mean "
        "ATTENTIVE_KEY_REQUIRED?",
    ]


def test_the_weights_of_the_checkout_are_used_where_the_current_folder_has_none(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert default_weights() == CHECKOUT / "weights"
    (tmp_path / "weights").mkdir()
    assert default_weights() == Path("weights")


def test_values_of_every_type_are_parsed():
    settings = read(
        "--history",
        "off",
        "--grace-seconds",
        "1.5",
        "--dtype",
        "int8",
        ATTENTIVE_WEIGHTS="/models",
        ATTENTIVE_DATA="~",
    )
    assert settings.history is False
    assert settings.grace_seconds == 1.5
    assert settings.dtype == "int8"
    assert settings.weights == Path("/models")
    assert settings.data == Path.home()


@pytest.mark.parametrize(
    "flags",
    [
        ("--port", "http"),
        ("--port", "70000"),
        ("--port", "-1"),
        ("--history", "maybe"),
        ("--device", "tpu"),
        ("--dtype", "int4"),
        ("--timeout-seconds", "nan"),
        ("--timeout-seconds", "0"),
        ("--char-limit", "0"),
        ("--beam-size", "33"),
        ("--data", __file__),
        ("--log-level", "loud"),
        ("--cors-origins", "foo bar"),
        ("--cors-origins", "https://a.example https://b.example"),
        ("--cors-origins", "https://a.example, b.example"),
        ("--cors-origins", "https://a.example/"),
        ("--cors-origins", "https://*.a.example"),
        ("--cors-origins", "HTTPS://A.example"),
        *(
            ("--frame-ancestors", origin)
            for origin in (
                "*",
                "null",
                "'self'",
                "https:",
                "https://*.a.example",
                "https://a.example/",
                "https://a.example https://b.example",
                "https://a.example; script-src *",
                "https://a.example,http://b.example:x",
                "data:",
            )
        ),
    ],
)
def test_an_invalid_value_is_reported_with_flag_and_variable(flags):
    with pytest.raises(SettingsError) as caught:
        read(*flags)
    assert flags[0] in str(caught.value)
    assert "ATTENTIVE_" + flags[0].strip("-").replace("-", "_").upper() in str(caught.value)


@pytest.mark.parametrize(
    "origins",
    ["*", "null", "https://a.example:8443,http://[::1]:80", "chrome-extension://ab,*", ","],
)
def test_origins_are_accepted_as_browsers_send_them(origins):
    assert read("--cors-origins", origins).cors_origins == origins


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[fe80::1%eth0]", "fe80::1%eth0"),
        ("[a]", "[a]"),
        ("::", "::"),
    ],
)
def test_an_address_may_have_the_brackets_of_a_url(written, host):
    assert read("--host", written).host == host


@pytest.mark.parametrize("name", ["history-storage", "limits-storage"])
def test_removed_settings_name_their_successor(name):
    for arguments in ((f"--{name}", "redis://x"), (f"--{name}=redis://x",)):
        with pytest.raises(
            SettingsError, match=rf"^--{name} .* was removed; use --state \(ATTENTIVE_STATE\)\.$"
        ):
            read(*arguments)
    with pytest.raises(SettingsError, match="use --state"):
        read(**{"ATTENTIVE_" + name.replace("-", "_").upper(): "redis://x"})


@pytest.mark.parametrize(
    ("text", "use"), [("true", "on"), ("0", "off"), ("auto", "auto"), ("off", "off"), ("on", "on")]
)
def test_the_shortlist_was_a_switch(text, use):
    assert read(ATTENTIVE_SHORTLIST=text).shortlist == use
    assert read("--shortlist", text).shortlist == use


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], False),
        (["--key-required"], True),
        (["--key-required", "--port", "1"], True),
        (["--key-required=false"], False),
    ]
    + [
        (["--key-required", text], value)
        for text, value in (("true", True), ("1", True), ("off", False))
    ],
)
def test_a_switch_may_have_no_value(words, value):
    parser = argparse.ArgumentParser()
    add_flags(parser)
    assert Settings.read(parser.parse_args(words), {}).key_required is value


def test_the_number_of_api_processes_is_given_or_chosen_for_the_machine():
    assert Settings().processes == 1
    assert Settings(api_processes="3").processes == 3
    assert 1 <= Settings(api_processes="auto").processes <= 16
    for wrong in ("0", "65", "-1", "two", "1.5"):
        with pytest.raises(SettingsError, match="api-processes"):
            Settings(api_processes=wrong)
