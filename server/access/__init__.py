"""Who may call and how often: API keys, rate limits and the bounded queue."""
