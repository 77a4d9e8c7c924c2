import pytest


@pytest.fixture(scope="session")
def private_cache(tmp_path_factory):
    """Runs of the tools are neither taken from the user's cache nor left there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TG2HDL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
