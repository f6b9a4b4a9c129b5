"""Real workloads, and what it costs to look at them."""
