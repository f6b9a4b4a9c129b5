"""What was explored, as a value that is kept: one recorded exploration, and the file that it is saved to."""
