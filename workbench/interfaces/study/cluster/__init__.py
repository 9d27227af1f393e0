"""Jobs that run on the devices of this machine, or on those of the nodes of a Ray cluster."""
