"""The values inside of two graphs: recorded in runs, matched by name and number, judged by what rounding explains."""
