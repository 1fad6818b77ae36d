"""Formats whose texts are in XML: what their elements mean is said by tables (`vocabularies`), which one reader follows."""
