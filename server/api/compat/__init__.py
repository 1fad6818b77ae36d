"""Interfaces of other translation services, DeepL and Google, and of browser extensions."""
