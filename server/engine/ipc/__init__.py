"""Messages between the API process and the workers, worker options, and the transport. No torch."""
