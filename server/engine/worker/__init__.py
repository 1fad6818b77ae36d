"""The worker: a process of its own that owns one device; `supervisor` is its side in the API process."""
