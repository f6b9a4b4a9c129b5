"""Parts of the Collectives pane: rows, prices, and observed values."""
