"""The replies of the Roofline pane to other parts of the Explorer: the costs of lines, and the headline."""
