"""One file a pane, and `registry`, which names them all. `pane` says what a pane is given and asked for."""
