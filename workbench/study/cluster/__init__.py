"""Jobs on devices, of this machine or of the nodes of a Ray cluster."""
