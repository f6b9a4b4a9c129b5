"""Compile options: values, text form, proto form, and checks of flags and pass names."""
