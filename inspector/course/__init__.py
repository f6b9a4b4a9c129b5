"""The questions of the course in `notebooks/course/`, and `check`, which says what is wrong with an answer."""
