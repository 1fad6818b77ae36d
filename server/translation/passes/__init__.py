"""The candidates of a sentence, the terms of a glossary in it, and its finish."""
