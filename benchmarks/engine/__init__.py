"""Speed of the engine compared with CTranslate2 and Hugging Face. `python -m benchmarks.engine
--help`."""
