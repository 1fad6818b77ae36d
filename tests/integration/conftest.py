"""Fixtures of the integration tests."""

from tests.unit.benchmarks.conftest import development, weights

__all__ = ["development", "weights"]
