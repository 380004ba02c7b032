import pytest

from tests.drivers import Driver, with_driver


@pytest.mark.parametrize(
    "given",
    [
        "SERVER=a,1;UID=sa",
        "DRIVER=FreeTDS;SERVER=a,1;UID=sa",
        "SERVER=a,1;driver={x;y}}z};UID=sa",
        "Driver={ODBC Driver 18 for SQL Server};SERVER=a,1;UID=sa",
    ],
)
def test_a_connection_string_moves_to_another_driver(given: str) -> None:
    assert with_driver(given, "new}one") == "DRIVER={new}}one};SERVER=a,1;UID=sa"


def test_both_drivers_are_found(driver: Driver) -> None:
    assert driver.odbc
