"""What a command's exit code says."""

DONE = 0  # done and verified, or not asked to
FAILED = 1  # a verification failed, so that no model is written, or something to be measured did not run
BAD_INPUT = 2
UNVERIFIED = 3  # done, but it could not be verified
STOPPED = 130  # by Ctrl-C
