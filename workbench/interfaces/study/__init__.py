"""Many runs: `sweep/` has measurements of many models, steps and backends in one run that can be resumed, `tuning/` the
best pipeline, backend and element type of a model here, `compare_tools/` a model through every optimizer that is
installed, `cluster/` jobs on this machine's devices, or on the nodes of a Ray cluster.
"""
