"""The model folders of a server: finds, loads, replaces and downloads them while it runs."""
