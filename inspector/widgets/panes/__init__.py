"""The panes, one file each, and `registry`, which lists them. `framework/pane.py` defines their inputs and requests."""
