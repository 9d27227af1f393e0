"""The app: one page per stage of the work, in its order."""
