"""Groups of operators with one kernel each, and what they save in memory traffic."""
