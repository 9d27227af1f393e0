"""Running graphs: inputs, tolerances, comparison; the worker process, interleaved timing, kept runs."""
