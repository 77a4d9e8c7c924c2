import subprocess
import sys

from tg2hdl_ir import resolve
from tg2hdl_quant import plugin, quantize_int8, quantize_int16


def test_quantizers_are_registered_under_their_names():
    found = {q.name: resolve(q.quantize) for q in plugin.tg2hdl_quantizers() if q.quantize is not None}
    assert found == {"int8": quantize_int8, "int16": quantize_int16}


def test_loading_the_plugin_imports_neither_amaranth_nor_tinygrad():
    code = "import sys, tg2hdl_quant.plugin; print(sorted({'amaranth', 'tinygrad'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
