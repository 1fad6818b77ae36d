"""The setting `--state`: its values, and errors that do not quote a password."""

from __future__ import annotations

import pytest

from server.config import Settings
from server.errors import SettingsError
from server.state.setting import open_state, state_kind


def test_the_default_depends_on_the_data_folder(tmp_path):
    assert state_kind(Settings()) == "memory"
    assert state_kind(Settings(data=tmp_path)) == "sqlite"


def test_values(tmp_path):
    assert state_kind(Settings(state="memory", data=tmp_path)) == "memory"
    assert state_kind(Settings(state="sqlite", data=tmp_path)) == "sqlite"
    assert state_kind(Settings(state="redis://host")) == state_kind(Settings(state="rediss://u:p@host:1/2")) == "redis"
    assert open_state(Settings()) is None
    assert open_state(Settings(state="rediss://u:p@host:1/2?ssl_ca_certs=/ca.pem")) is not None


@pytest.mark.parametrize(
    "value", ["sqlite", "nonsense://:hunter2@x", "redis://:hunter2@x:port", "redis://:hunter2@x/?db=x", "hunter2"]
)
def test_other_values_are_refused(value):
    with pytest.raises(SettingsError, match=r"^--state \(ATTENTIVE_STATE\)") as error:
        open_state(Settings(state=value))
    assert "hunter2" not in str(error.value)
