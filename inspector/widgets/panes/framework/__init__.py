"""The base classes of panes, and the board that routes results and browser requests to them."""
