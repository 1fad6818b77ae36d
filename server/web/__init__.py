"""The static files of the web page, and the HTML report made of them."""
