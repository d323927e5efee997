"""The same over Spark Connect, whose client has no Java and no plan of its own."""

from __future__ import annotations

import pytest

from tests.engines import test_spark
from tests.engines.conftest import needs
from tests.engines.spark import session

needs("pyspark", program="java")
needs("grpc_status")

visits, people = test_spark.visits, test_spark.people


@pytest.fixture(scope="module")
def spark():
    found = session("local[2]", remote=True)
    yield found
    found.stop()


def test_it_is_connect(visits):
    assert "connect" in type(visits).__module__


for name in (
    "test_a_user_moves_what_is_stated_and_no_more",
    "test_a_plan_gives_constants_and_charges_once",
    "test_private_keys_are_selected_and_may_be_none",
    "test_without_by_and_with_missing_values_it_is_as_on_duckdb",
    "test_release_draws_once",
    "test_reports_are_files_before_they_are_read",
    "test_what_is_wrong_is_told_before_a_row_is_read",
    "test_what_spark_says_of_a_cell_is_not_told",
    "test_a_session_that_was_stopped_is_told",
):
    globals()[name] = getattr(test_spark, name)
