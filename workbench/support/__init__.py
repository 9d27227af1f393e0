"""What every room may use: files replaced whole, folders and locks of a process, late imports."""
