"""Folders that XLA wrote with `xla_dump_to`: finds their modules by the names of the files, and reads parts on demand.

`names` groups files by module, `folder` lists and reads them, `contents` reads passes, code and flags. Nothing here opens HLO:
`api/dump.py` does that, and passes the function that converts protos to text.
"""
