"""Pictures of attention: layouts, the drawing they fill, and its files (SVG, PDF, PNG)."""
