"""Profiles that `jax.profiler` writes (`*.xplane.pb`), read without JAX.

A profile is an `XSpace` of `tsl/profiler/protobuf/xplane.proto`: planes (one per device, one for the host), their lines
(streams, threads), and events with a name, a start, a duration and statistics. `xspace.py` reads the events into NumPy
columns, because a profile has hundreds of thousands. Knows nothing about instructions: `analysis/profile/` joins events to
them. Next: `programs.py` for the HLO modules in a profile.
"""
