"""Checks of compiled programs for tests and CI, against limits and against baseline files that are reviewed.

`expectation.py` has the class for users. Each kind of check is a file that turns a compiled program into a `CheckResult`;
`message.py` writes failure messages. pytest imports `plugin.py` in every run, so that file imports nothing itself.
"""
