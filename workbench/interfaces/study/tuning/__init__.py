"""Finding the pipeline, backend and precision with which a model runs fastest, or in the least memory, on a machine."""
