"""Graphs of modules: the nested hierarchy of the Graph pane, and Graphviz drawings."""
