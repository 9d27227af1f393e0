"""What a session holds and how it is kept: the open model, its history, its address, its work."""
