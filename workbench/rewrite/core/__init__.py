"""Rules, passes, the driver that applies them, and the history of what was applied."""
