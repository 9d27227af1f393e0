"""The worker process: started, asked, watched and stopped; one job on a device at a time."""
