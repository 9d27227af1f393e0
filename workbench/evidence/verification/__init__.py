"""Whether two graphs or two files give equal results on the same inputs."""
