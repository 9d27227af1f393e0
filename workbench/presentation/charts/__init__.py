"""Charts of variants, operators, sweeps, kept runs, tunings, memory plans and streams."""
