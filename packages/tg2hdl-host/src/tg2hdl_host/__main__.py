"""``python -m tg2hdl_host``: version, purpose and public names."""

from importlib.metadata import metadata
from textwrap import fill

import tg2hdl_host

if __name__ == "__main__":
    about = metadata("tg2hdl-host")
    print(f"{about['Name']} {about['Version']}: {about['Summary']}")
    names = [name for name in tg2hdl_host.__all__ if not name.startswith("_")]
    print(fill(f"Public names: {', '.join(names)}", 79, subsequent_indent="  "))
