"""Parts of the Collectives pane: rows, cost estimates and observed values."""
