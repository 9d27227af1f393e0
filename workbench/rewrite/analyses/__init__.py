"""What several passes ask of a graph before they change it: shared guards and facts of operators."""
