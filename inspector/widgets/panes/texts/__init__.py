"""The panes with texts: source, outline, jaxpr, StableHLO, HLO and optimized HLO."""
