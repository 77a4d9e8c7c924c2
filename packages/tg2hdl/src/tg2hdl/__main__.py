"""``python -m tg2hdl``."""

from tg2hdl_start import main

if __name__ == "__main__":
    main()
