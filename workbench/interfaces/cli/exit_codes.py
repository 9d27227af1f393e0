"""The exit codes of commands."""

DONE = 0
FAILED = 1
BAD_INPUT = 2
UNVERIFIED = 3
STOPPED = 130

MEANINGS = {
    DONE: "done, and verified unless that was switched off",
    FAILED: "verification failed and no model is written (a report is, since it shows the failure); or a part of what "
    "bench, layouts or matrix should measure did not run; or what check read does not hold, or is not what it requires",
    BAD_INPUT: "bad input, one sentence on stderr",
    UNVERIFIED: "done, but it could not be verified, which a line of its own says; nothing is written with "
    "--require-verified",
    STOPPED: "stopped by Ctrl-C",
}
