"""Parts of the Run pane: the accuracy of variants."""
