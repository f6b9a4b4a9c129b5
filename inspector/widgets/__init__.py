"""The panes and the Explorer that arranges them. Imported only when a widget is requested."""
