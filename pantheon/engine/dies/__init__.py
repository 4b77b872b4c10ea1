"""Dies: which accelerator devices there are, how much each may hold, and which model is on which.

Plain Python over what a device says of itself.
"""

from pantheon.engine.dies.device import Device
from pantheon.engine.dies.die import Die, find_dies
from pantheon.engine.dies.manager import Binding, DieManager

__all__ = ["Binding", "Device", "Die", "DieManager", "find_dies"]
