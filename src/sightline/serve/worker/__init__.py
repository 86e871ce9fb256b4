"""The worker process of the server, and the queue that feeds it."""
