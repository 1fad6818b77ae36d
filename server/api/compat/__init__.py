"""Other services' ways of asking for a translation: one thin file each over the one translator."""
