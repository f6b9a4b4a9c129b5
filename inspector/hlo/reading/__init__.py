"""The columnar reader: parses large HLO protos into NumPy columns, for speed."""
