"""The passes over the translation of a sentence, one a file; `server.translation.sentence.PASSES` lists them in order."""
