"""Order of axes and element type chosen together: the problem, and the Transposes and Casts that a choice needs."""
