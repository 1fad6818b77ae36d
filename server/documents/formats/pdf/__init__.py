"""PDF files with text. Their translation is a PDF file, a file for Word, or a page of HTML; pages are scanned by no reader."""
