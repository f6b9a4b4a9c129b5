"""The columnar reader: parses large HLO protos into NumPy columns. Everything here exists for speed."""
