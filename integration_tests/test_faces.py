"""The public names of each package are recorded, so that its face changes on purpose: `python test_faces.py` records.

A face of which a version was released is recorded only after its changelog has begun another one.
"""

import json
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
RECORD = Path(__file__).with_name("faces.json")


def faces() -> dict[str, list[str]]:
    names = sorted(p.name for p in PACKAGES.iterdir() if (p / "src").is_dir())
    return {name: sorted(import_module(name.replace("-", "_")).__all__) for name in names}


def changed() -> list[str]:
    recorded, found = json.loads(RECORD.read_text()), faces()
    return sorted(name for name in {*recorded, *found} if recorded.get(name) != found.get(name))


REFERENCE = {
    "tg2hdl_backend": (
        "BenchResult BufferInfo HDLRenderer KernelSpec analyze_buffers compile_kernel compile_model compile_top_module "
        "count_cycles_from_schedule format_uops pretty_print_uops run_bench simulate_kernel simulate_top uop_to_ir "
        "uops_to_kernel_ir"
    ),
    "tg2hdl_fp32": "FP32Add FP32Mul FP32Cmp FP32Exp2 FP32Log2 FP32Reciprocal FP32Sqrt FP32FDiv",
    "tg2hdl_lower": "CompiledKernel ArithmeticLowering create_counters build_control",
    "tg2hdl_quant": "quantize_int8 quantize_int16 dequantize float_to_bits bits_to_float",
    "tg2hdl_synth": "show_hardware synthesis_stats",
    "tg2hdl_top": "TopModule",
}
"""Names of the reference that are not those of the IR."""


def is_released(package: str) -> bool:
    """Whether the first version of its changelog was published."""
    heading = re.search(r"^## .*", (PACKAGES / package / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None, f"{package}: a changelog without a version"
    return "unreleased" not in heading[0]


def test_faces_are_those_recorded() -> None:
    assert not changed(), (
        f"the public names of {', '.join(changed())} have changed: say so in the changelog, under a version that is "
        f"not released yet (python release.py bump), and run python integration_tests/{Path(__file__).name}"
    )


def record() -> None:
    released = [name for name in changed() if is_released(name)] if RECORD.exists() else []
    if released:
        raise SystemExit(
            f"begin another version of {', '.join(released)} first: python release.py bump PACKAGE minor"
        )
    RECORD.write_text(json.dumps(faces(), indent=1) + "\n")


@pytest.mark.parametrize(
    "package", ["ir", "lower", "top", "backend", "sim", "synth", "quant", "tflite", "host"]
)
def test_a_package_runs_as_a_program(package, capsys):
    pytest.importorskip(f"tg2hdl_{package}", reason="a package of its own")
    runpy.run_module(f"tg2hdl_{package}", run_name="__main__")
    first, names = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith(f"tg2hdl-{package} ")
    assert names.startswith("Public names: ")


@pytest.mark.parametrize("package", REFERENCE)
def test_names_of_the_reference_are_in_the_face_and_in_compat(package):
    face, compat = import_module(package), import_module(f"{package}.compat")
    for name in REFERENCE[package].split():
        assert getattr(compat, name) is getattr(face, name)
        assert name in compat.__all__


if __name__ == "__main__":
    record()
