"""What several passes ask of a graph: linear operators, slices, casts and element types, signs, zeros, parallel
operators, a batch of any size.
"""
