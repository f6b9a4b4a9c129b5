"""What to run, how often, on which inputs; statistics of what came back."""
