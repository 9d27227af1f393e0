"""Layout strategies: their base, and what several of them share."""
