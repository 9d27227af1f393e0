"""Charts of measurements, drawn by plotly."""
