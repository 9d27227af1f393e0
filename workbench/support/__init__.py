"""Utilities for all packages: atomic file writes, folders and locks of a process, deferred imports."""
