"""From the user's Python to a `Lowered`: the only room that runs it."""
