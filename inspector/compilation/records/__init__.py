"""What a compile can be asked to record: passes, back-end code, buffers; and how XLA's files become values."""
