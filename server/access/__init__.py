"""API keys, rate limits and the bounded queue."""
