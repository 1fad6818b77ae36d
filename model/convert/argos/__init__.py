"""Import and export of the packages of Argos Translate and LibreTranslate."""
