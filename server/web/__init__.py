"""The static files of the pages, and the pages and reports made of them."""
