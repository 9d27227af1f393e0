"""What is there without need goes."""
