"""Rows from the server, and what they mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError
from sqllease.answers import ANSWER_COLUMNS, INFO_COLUMNS, Done, moment, read_answer, read_info

TENURE = "2026-11-29T14:00:00.1234567+00:00"
EXPIRES = "2026-11-29T14:00:30.1234567+00:00"
EXPIRES_AT = datetime(2026, 11, 29, 14, 0, 30, 123456, UTC)

DONE = {
    "DoneName": "nightly",
    "DoneOwner": "me",
    "DoneAcquiredAt": TENURE,
    "DoneExpiresAt": EXPIRES,
    "DoneVersion": 2001,
}
SEEN = {
    "SeenName": "nightly",
    "SeenOwner": "other",
    "SeenAcquiredAt": TENURE,
    "SeenRenewedAt": TENURE,
    "SeenExpiresAt": EXPIRES,
    "SeenRemainingUs": 30_000_000,
}


def answer_row(**values: Any) -> list[Any]:
    return [{"ErrorNumber": 0, "DoneExpiresAt": EXPIRES, **values}.get(column) for column in ANSWER_COLUMNS]


def info_row(**values: Any) -> list[Any]:
    return [{**SEEN, **values}.get(column) for column in INFO_COLUMNS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T14:00:00.1234567+00:00", datetime(2026, 11, 29, 14, 0, 0, 123456, UTC)),
        ("2026-12-31T23:59:59.9999999+00:00", datetime(2026, 12, 31, 23, 59, 59, 999999, UTC)),
        ("2026-11-29T10:30:00.0000000-03:30", datetime(2026, 11, 29, 14, 0, tzinfo=UTC)),
        ("2026-11-29T19:45:00+05:45", datetime(2026, 11, 29, 14, 0, tzinfo=UTC)),
        ("2026-11-29T14:00:00.1230000Z", datetime(2026, 11, 29, 14, 0, 0, 123000, UTC)),
    ],
)
def test_a_time_is_aware_utc_and_rounded_down(text: str, expected: datetime) -> None:
    read = moment(text)
    assert read == expected
    assert read.utcoffset() == timedelta(0)


def test_a_row_is_read_as_what_people_want_to_know() -> None:
    info = read_info(info_row(SeenMetadata="from ops"))
    assert (info.name, info.owner_id, info.metadata) == ("nightly", "other", "from ops")
    assert (info.expires_at, info.remaining, info.expired, info.resting) == (EXPIRES_AT, 30.0, False, False)


@pytest.mark.parametrize("microseconds", [0, -1, -3_600_000_000])
def test_an_expired_row_has_nothing_left_and_never_less(microseconds: int) -> None:
    info = read_info(info_row(SeenRemainingUs=microseconds))
    assert (info.remaining, info.expired) == (0.0, True)


def test_the_last_microsecond_of_a_lease_still_counts() -> None:
    info = read_info(info_row(SeenRemainingUs=1))
    assert (info.remaining, info.expired) == (0.000001, False)


def test_a_resting_row_shows_who_held_it_last() -> None:
    info = read_info(info_row(SeenOwner="\x01other"))
    assert (info.owner_id, info.resting) == ("other", True)


def test_what_the_locking_statement_put_out_is_done() -> None:
    answer = read_answer(answer_row(**DONE, PreviousOwner="other"), "nightly", "me")
    assert answer.done == Done(TENURE, EXPIRES_AT, 2001, "other")
    assert answer.seen is None


def test_a_tenure_is_kept_exactly_as_the_server_wrote_it() -> None:
    done = read_answer(answer_row(**DONE), "nightly", "me").done
    assert done is not None
    assert done.tenure == TENURE  # all seven digits: the next renew compares with them


def test_a_row_that_was_only_seen_is_not_done_even_with_our_own_name_in_it() -> None:
    answer = read_answer(answer_row(**{**SEEN, "SeenOwner": "me"}), "nightly", "me")
    assert answer.done is None
    assert answer.seen is not None
    assert answer.seen.owner_id == "me"


def test_nothing_done_and_nothing_seen_is_an_answer_too() -> None:
    answer = read_answer(answer_row(), "nightly", "me")
    assert (answer.error_number, answer.done, answer.seen, answer.seen_remaining) == (0, None, None, 0.0)


def test_the_number_of_the_contention_is_told() -> None:
    assert read_answer(answer_row(ErrorNumber=1222, **SEEN), "nightly", "me").error_number == 1222


def test_how_long_a_seen_row_has_been_expired_is_kept_for_the_grace() -> None:
    assert read_answer(answer_row(**{**SEEN, "SeenRemainingUs": -2_500_000}), "nightly", "me").seen_remaining == -2.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"DoneName": "Nightly"},
        {"DoneName": "nightly "},
        {"DoneOwner": "ME"},
        {"DoneOwner": "me "},
        {"DoneOwner": "\x01me"},
    ],
)
def test_an_answer_to_another_question_is_never_a_win(wrong: dict[str, str]) -> None:
    with pytest.raises(LeaseStoreError):
        read_answer(answer_row(**{**DONE, **wrong}), "nightly", "me")


@pytest.mark.parametrize("other", ["Nightly", "nightly ", "n\N{LATIN SMALL LETTER I WITH ACUTE}ghtly"])
def test_a_table_that_takes_another_name_for_ours_is_reported_by_name(other: str) -> None:
    with pytest.raises(LeaseConfigurationError, match="collation") as caught:
        read_answer(answer_row(**{**SEEN, "SeenName": other}), "nightly", "me")
    assert repr(other) in str(caught.value)
