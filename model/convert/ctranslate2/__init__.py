"""Import from and export to CTranslate2."""
