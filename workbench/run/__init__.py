"""Running graphs: inputs, executors, the worker process, measurement, comparison."""
