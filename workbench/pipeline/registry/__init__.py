"""The discovered passes, pipelines and strategies by name, and the context of a run."""
