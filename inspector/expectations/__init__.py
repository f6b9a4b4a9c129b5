"""What programs are expected to be: checks for tests and CI, against limits and against files that are reviewed.

`expectation.py` is what users hold. Each kind of check is a file that makes a `Finding` of a compiled program; `message.py`
writes what a failure says. `plugin.py` is for pytest, which imports it whoever uses it: it imports nothing itself.
"""
