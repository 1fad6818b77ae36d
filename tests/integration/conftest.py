"""Fixtures of the integration tests."""

from tests.unit.benchmarks.conftest import weights

__all__ = ["weights"]
