"""Settings of all tests."""

import os

from hypothesis import settings

# Several tests run at once, so that the time of one example says nothing.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Every kernel is verified after every pass, also in the processes that tests start.
os.environ.setdefault("TG2HDL_VERIFY_EACH", "1")
