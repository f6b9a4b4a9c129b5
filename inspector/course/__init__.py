"""The questions of the course in `notebooks/course/`, and `check`, which explains wrong answers."""
