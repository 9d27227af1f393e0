"""The pages: one per stage of the work, in its order."""
