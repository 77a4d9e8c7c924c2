"""Registration of the cores with the tg2hdl compiler."""

__all__ = ["tg2hdl_arithmetic_units"]

from tg2hdl_ir import Area, ArithmeticUnit, DType, hookimpl

from .catalog import CATALOG, ConstantEntry, figures, latencies
from .catalog_functions import MODELLED


@hookimpl
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:
    """Float units of the catalog; ``balanced`` has the highest priority."""
    cycles, measured = latencies(), figures()
    return [
        ArithmeticUnit(
            name=entry.name,
            op=entry.op,
            operands=tuple(getattr(DType, name) for name in entry.operands),
            result=getattr(DType, entry.result),
            latency=cycles[entry.name],
            factory=entry,
            area=Area(**{kind: int(measured[entry.name][kind]) for kind in ("lut", "ff", "dsp", "bram")}),
            fmax=measured[entry.name]["fmax"],
            target=entry.target,
            priority=entry.priority,
            accuracy=entry.accuracy,
            golden=f"tg2hdl_fp32.golden:{entry.op}" if entry.op in MODELLED else None,
            constant=ConstantEntry(entry) if entry.op == "mul" else None,
        )
        for entry in CATALOG
    ]
