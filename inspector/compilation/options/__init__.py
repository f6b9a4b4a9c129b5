"""Compile options as values, text and protobuf messages, and checks of flags and pass names."""
