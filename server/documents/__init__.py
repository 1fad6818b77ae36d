"""Translates files.

A reader for each file format turns bytes into a `Document`: the texts to translate and a function
that writes the file with translated texts. Everything that is not text is copied.
"""
