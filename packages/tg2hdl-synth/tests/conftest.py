import pytest


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TG2HDL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
