"""Measured time per instruction: joins the events of a profile to the instructions of a module.

`device_events.py` selects the events that are work of a device, `joining.py` joins them to instructions, and `profile.py` has
the result, `Profile`. Reads a profile as a value (`inspector/profiles/`); runs nothing.
"""
