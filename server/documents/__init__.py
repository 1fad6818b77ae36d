"""Translates files.

A reader for each file format turns bytes into a `Document`: the texts to translate, as plain text or HTML, and a
function that writes the file with translated texts. Office files and books are zip archives of XML; they are read with
zipfile and lxml within fixed limits, and everything that is not text is copied.
"""
