"""The exit codes of commands."""

DONE = 0  # done, and verified unless that was switched off
FAILED = 1  # verification failed, so that no model is written, or a part of a measurement did not run
BAD_INPUT = 2
UNVERIFIED = 3  # done, but it could not be verified
STOPPED = 130  # stopped by Ctrl-C
