"""Who compiles and runs, and in which process. `choice.py` finds the engine that a user means."""
