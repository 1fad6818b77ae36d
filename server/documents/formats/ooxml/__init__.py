"""The formats of Microsoft Office (Office Open XML)."""
