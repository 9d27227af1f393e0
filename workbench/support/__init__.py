"""Utilities for all packages: files that are replaced whole or not at all, entries of ZIP files, folders that end with
their process and the locks that tell it, deferred imports of heavy packages, TF32 for one context, delta debugging.
"""
