"""Imports measure the roles of heads on few sentences."""

from tests.unit.model.convert.conftest import few_sentences

__all__ = ["few_sentences"]
