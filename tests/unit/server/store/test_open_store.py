"""The setting `--state`: its values, and errors that do not quote a password."""

from __future__ import annotations

import pytest

from server.config import Settings
from server.errors import SettingsError
from server.store.open_store import open_shared
from server.store.sqlite import SQLiteStore


def test_values():
    assert open_shared(Settings()) is None
    assert open_shared(Settings(state="rediss://u:p@host:1/2?ssl_ca_certs=/ca.pem")) is not None


@pytest.mark.parametrize(
    "value",
    ["sqlite", "memory", "nonsense://:hunter2@x", "redis://:hunter2@x:port", "redis://:hunter2@x/?db=x", "hunter2"],
)
def test_other_values_are_refused(value):
    with pytest.raises(SettingsError, match=r"^--state \(ATTENTIVE_STATE\)") as error:
        open_shared(Settings(state=value))
    assert "hunter2" not in str(error.value)


def test_the_file_is_readable_by_its_owner_only(tmp_path):
    SQLiteStore(tmp_path)
    assert (tmp_path / "attentive.sqlite3").stat().st_mode & 0o777 == 0o600
