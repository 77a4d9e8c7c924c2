"""Install each package from its wheel with nothing but what it requires, and run its tests there.

python integration_tests/packages_alone.py [NAME ...]             all tests of the packages
python integration_tests/packages_alone.py --collect [NAME ...]   import what the tests import, run none
"""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from pathlib import Path

from environments import ROOT, Environment, build_wheel, normal
from packaging.requirements import Requirement

TEST_REQUIREMENTS = ("pytest", "hypothesis", "mpmath", "numpy", "ml_dtypes")


EXTRAS = {"tg2hdl": ("all",), "tg2hdl-sim": ("yosys",), "tg2hdl-synth": ("tools",)}
"""What the tests of a package need beyond its core; those of other extras are skipped without them."""


def required(names: tuple[str, ...], extras: tuple[str, ...] = ()) -> set[str]:
    """Distributions that some distributions need, themselves included; `extras` are those of the first."""
    found: set[str] = set()
    pending = [(name, frozenset(extras if name == names[0] else ())) for name in names]
    seen = set(pending)
    while pending:
        name, extras = pending.pop()
        found.add(normal(name))
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras)):
                entry = (requirement.name, frozenset(requirement.extras))
                if entry not in seen:
                    seen.add(entry)
                    pending.append(entry)
    return found


def main(names: list[str]) -> int:
    """Test the named packages, all without names; returns the number that failed."""
    collect = "--collect" in names
    names = [n for n in names if n != "--collect"]
    folders = {f.name: f for f in sorted((ROOT / "packages").iterdir())}
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        wheels = Path(temporary) / "wheels"
        wheels.mkdir()
        built = {name: build_wheel(folder, wheels) for name, folder in folders.items()}
        for name in names or folders:
            needed = required((name, *TEST_REQUIREMENTS), EXTRAS.get(name, ()))
            environment = Environment(Path(temporary) / name, only=needed)
            environment.install(*(built[n] for n in built if n in needed))
            siblings = ", ".join(n for n in built if n in needed and n != name)
            print(f"-- {name} alone" + (f", with {siblings}" if siblings else ""), flush=True)
            tests = ("-q", "-p", "no:cacheprovider", f"packages/{name}/tests")
            tests += ("--collect-only",) if collect else ()
            result = environment.run("-m", "pytest", *tests, cwd=ROOT)
            ok = result.returncode == 0
            print(result.stdout.splitlines()[-1] if ok else result.stdout + result.stderr, flush=True)
            failed += [] if ok else [name]
    print("packages alone: " + (f"failed: {', '.join(failed)}" if failed else "all passed"))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
