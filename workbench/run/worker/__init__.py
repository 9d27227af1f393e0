"""The worker process: starting, requests, limits, stopping; one job per device at a time."""
