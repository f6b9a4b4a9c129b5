"""Devices in HLO: replica groups, meshes, shardings and device counts."""
