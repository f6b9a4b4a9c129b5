"""The results of bisections: steps, changes, passes, reproductions, and compile times by part."""
