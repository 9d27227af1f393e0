"""What the worker process does: the tasks that it is sent, and its entry point."""
