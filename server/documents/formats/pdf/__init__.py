"""PDF files with text. Their translation is a PDF file or a page of HTML."""
