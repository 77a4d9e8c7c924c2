"""The plan of a kernel: typed nodes, their placement, and everything else that is decided before emission."""

from tg2hdl_lower.plan.graph import LeafPlan
from tg2hdl_lower.plan.hardware_plan import BufferPort, HardwarePlan, PortRegisters

__all__ = ["BufferPort", "HardwarePlan", "LeafPlan", "PortRegisters"]
