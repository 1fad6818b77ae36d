"""Formats whose texts are in XML: one reader follows the tables of `vocabularies`."""
