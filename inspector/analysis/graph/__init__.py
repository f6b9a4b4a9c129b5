"""Modules as graphs: the nested hierarchy of the Graph pane, and drawings by Graphviz."""
