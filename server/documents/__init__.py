"""Files as documents: what is to be translated in them, and the same file with other words.

Every reader turns bytes into a `Document`: texts in the translator's own formats, and a function that writes the file anew.
Office formats and books are archives of XML. They are read with zipfile and lxml within fixed bounds, and whatever is not
text is copied as it is.
"""
