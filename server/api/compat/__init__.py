"""Interfaces of other translation services: DeepL and Google."""
