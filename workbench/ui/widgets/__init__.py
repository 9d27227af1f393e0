"""What pages share on screen."""
