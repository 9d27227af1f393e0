"""Many runs of the engine: sweeps, tuning, other tools compared, jobs on several devices."""
