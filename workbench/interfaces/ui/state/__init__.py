"""The state of a session: the open model, its history, its URL, and the work in progress."""
