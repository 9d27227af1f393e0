"""Elements of the screen that several pages share."""
