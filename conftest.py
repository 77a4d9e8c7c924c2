"""Settings of all tests."""

from hypothesis import settings

# Several tests run at once, so that the time of one example says nothing.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
