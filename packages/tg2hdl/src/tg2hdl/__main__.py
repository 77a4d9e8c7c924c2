"""``python -m tg2hdl``."""

from tg2hdl.cli import main

if __name__ == "__main__":
    main()
