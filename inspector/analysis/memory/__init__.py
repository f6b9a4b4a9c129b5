"""Memory over time: live ranges of buffers, peaks, and out-of-memory errors of the TPU compiler."""
