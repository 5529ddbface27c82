import pytest

from headgate import Headgate, Store


@pytest.fixture
def app(store: Store) -> Headgate:
    app = Headgate()
    app.bind(store)
    return app
