"""Log lines and Prometheus metrics."""
