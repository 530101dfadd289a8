"""Old names, on their way out."""

from explearn.core.compute import Place, read_device_map, read_max_memory

__all__ = ["Place", "read_device_map", "read_max_memory"]
