"""The PyTorch backend: decoding with a key-value cache, attention maps, word states. Runs on any
device."""
