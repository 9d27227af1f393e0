"""The picture of a graph and its history: the union of a history, groups, placement, scene, inspector, correspondence
of two files, report, DOT, and the browser component; texts side by side.
"""
