"""``python -m tg2hdl_top``: version, purpose and public names."""

from tg2hdl_ir.installation import print_package

if __name__ == "__main__":
    print_package("tg2hdl_top")
