"""The engines, which compile and run programs in this process, in workers or on a cluster. `choice.py` selects one."""
