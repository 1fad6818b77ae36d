"""The engine: worker processes that own the devices, their client in the API process, and the
messages between the two."""
