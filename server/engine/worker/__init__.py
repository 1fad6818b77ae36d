"""The worker process, one per device: scheduler, model runner, and the loop between them."""
