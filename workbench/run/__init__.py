"""Running graphs: inputs, executors, a process of its own for every run, measurement, comparison."""
