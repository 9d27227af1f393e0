"""Measurements of many models, passes, backends and devices in one run that can be resumed."""
