"""Where users enter: the library, the command line, the app, lessons, studies of many runs."""
