"""Where users enter: the library (`api.py` has its verbs), the command line, the app, lessons, studies of many runs."""
