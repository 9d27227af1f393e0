"""Charts of what was measured, drawn by plotly."""
