"""What a driver's exception means, by number or SQLSTATE; and how often it is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tenacity import Retrying

from sqllease import LeaseConfigurationError, LeaseError, LeaseStoreError
from sqllease.faults import Fault, Kind, Retry, read_fault, retry_policy

LINK = "[Microsoft][ODBC Driver 18 for SQL Server]"
MS = f"{LINK}[SQL Server]"
FREETDS = "[FreeTDS][SQL Server]"

# sqlserver: EF Core's and SqlClient's lists of transient errors, Microsoft's page on Azure SQL connection errors.
CONTENTION = [
    *[601, 617, 669, 1203, 1204, 1205, 1221, 1222, 2601, 2627, 3960, 3961, 3966, 8628, 8645, 8651, 10922, 42029],
]
MOVED = [
    *[-2, -1, 2, 20, 26, 53, 64, 121, 203, 233, 258, 596, 615, 913, 921, 922, 926, 927, 941, 952, 955, 956, 976, 978],
    *[979, 982, 983, 988, 997, 1219, 3906, 3947, 3948, 3980, 4060, 4221, 6005, 10053, 10054, 10060, 10061, 11001],
    *[17142, 17197, 17889, 18401, 40143, 40166, 40197, 40540, 40613, 42108, 42109],
]
THROTTLED = [10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 49918, 49919, 49920]
NEVER = [
    *[102, 156, 207, 208, 213, 229, 230, 262, 297, 300, 308, 334, 468, 515, 517, 547, 650, 916, 1913, 1934, 2628, 2714],
    *[2759, 2760, 3609, 3908, 4064, 8115, 8152, 8622, 18452, 18456, 40615, 40914, 50000, 51001, 51003],
]


def server_error(number: int, state: str = "42000", text: str = "Something happened.") -> Exception:
    """As pyodbc raises it for a message of the server."""
    return Exception(state, f"[{state}] {MS}{text} ({number}) (SQLExecDirectW)")


def kind(error: Exception, *, sent: bool = True) -> Kind:
    return read_fault(error, (), sent=sent).kind


@pytest.mark.parametrize("number", CONTENTION)
def test_contention_is_asked_again_on_the_same_connection(number: int) -> None:
    fault = read_fault(server_error(number), (), sent=True)
    assert (fault.kind, fault.number, fault.breaks_connection) == (Kind.CONTENTION, number, False)


@pytest.mark.parametrize("number", MOVED)
def test_a_database_that_moved_is_asked_again_on_a_fresh_connection(number: int) -> None:
    fault = read_fault(server_error(number), (), sent=True)
    assert (fault.kind, fault.number, fault.breaks_connection) == (Kind.MOVED, number, True)


@pytest.mark.parametrize("number", THROTTLED)
def test_a_server_that_asks_for_less_load_is_asked_again_later(number: int) -> None:
    fault = read_fault(server_error(number), (), sent=True)
    assert (fault.kind, fault.number, fault.breaks_connection) == (Kind.THROTTLED, number, True)


@pytest.mark.parametrize("number", NEVER)
def test_an_error_that_somebody_has_to_mend_is_never_asked_again_and_the_connection_is_as_good_as_before(
    number: int,
) -> None:
    fault = read_fault(server_error(number), (), sent=True)
    assert (fault.kind, fault.number, fault.breaks_connection) == (Kind.SET_UP, number, False)


def test_a_connection_with_an_open_transaction_is_replaced() -> None:
    assert kind(server_error(51000)) is Kind.MOVED


@pytest.mark.parametrize("state", ["40001", "42000", "HY000", "01000"])
def test_the_number_decides_whatever_the_sqlstate(state: str) -> None:
    # Microsoft's driver reports 1205 as 40001, FreeTDS as 42000.
    assert kind(server_error(1205, state)) is Kind.CONTENTION
    assert kind(server_error(18456, state)) is Kind.SET_UP


def test_words_decide_nothing() -> None:
    assert kind(server_error(229, text="deadlock, timeout, connection was lost, 1205")) is Kind.SET_UP


@pytest.mark.parametrize(
    "args",
    [
        ("08S01", f"[08S01] {LINK}TCP Provider: Error code 0x2746 (10054) (SQLExecDirectW)"),
        # On Linux the number is the errno (pyodbc#427, #919): connection reset, broken pipe, timed out, no route.
        ("08S01", f"[08S01] {LINK}TCP Provider: Error code 0x68 (104) (SQLExecDirectW)"),
        ("08S01", f"[08S01] {LINK}TCP Provider: Error code 0x20 (32) (SQLExecDirectW)"),
        ("08S01", f"[08S01] {LINK}TCP Provider: Error code 0x6E (110) (SQLExecDirectW)"),
        ("08001", f"[08001] {LINK}TCP Provider: Error code 0x71 (113) (SQLDriverConnect)"),
        ("08S01", f"[08S01] {LINK}Communication link failure (0) (SQLExecDirectW)"),
        ("08001", "[08001] [FreeTDS][SQL Server]Unable to connect to data source (0) (SQLDriverConnect)"),
        ("08S01", f"[08S01] {FREETDS}Read from the server failed (20004) (SQLExecDirectW)"),
        ("01000", f"[01000] {FREETDS}Unexpected EOF from the server (20017) (SQLExecDirectW)"),
        ("HYT00", f"[HYT00] {LINK}Query timeout expired (0) (SQLExecDirectW)"),
        ("HYT01", f"[HYT01] {LINK}Connection timeout expired (0) (SQLExecDirectW)"),
        ("HYT00", f"[HYT00] {FREETDS}Timeout expired (0) (SQLExecDirectW)"),
        ("IMC06", f"[IMC06] {LINK}The connection is broken (0) (SQLExecDirectW)"),
        ("HY000", "The driver did not supply an error!"),
        ("HY008", f"[HY008] {FREETDS}Operation was cancelled (0) (SQLExecDirectW)"),
    ],
    ids=lambda args: f"{args[0]} {args[1][-40:-17]}",
)
def test_a_broken_or_silent_link_is_known_by_its_sqlstate(args: tuple[str, str]) -> None:
    assert kind(Exception(*args)) is Kind.MOVED


def test_a_link_that_freetds_sees_cut_while_it_opens_is_no_missing_driver() -> None:
    error = Exception("01000", f"[01000] {FREETDS}Unexpected EOF from the server (20017) (SQLDriverConnect)")
    assert kind(error, sent=False) is Kind.MOVED


@pytest.mark.parametrize(
    "args",
    [
        ("IM002", "[IM002] [unixODBC][Driver Manager]Data source name not found (0) (SQLDriverConnect)"),
        (
            "01000",
            "[01000] [unixODBC][Driver Manager]Can't open lib 'nowhere.so' : file not found (0) (SQLDriverConnect)",
        ),
        ("IM003", "[IM003] Specified driver could not be loaded (126) (SQLDriverConnect)"),
    ],
    ids=lambda args: args[0],
)
def test_a_driver_that_is_not_there_is_for_somebody_to_install(args: tuple[str, str]) -> None:
    fault = read_fault(Exception(*args), (), sent=False)
    assert fault.kind is Kind.SET_UP
    with pytest.raises(LeaseConfigurationError, match="driver"):
        raise fault.error()


def test_pyodbcs_own_errors_have_their_arguments_the_other_way_round() -> None:
    assert read_fault(Exception("The cursor's connection was closed.", "08003"), (), sent=True).sqlstate == "08003"


@pytest.mark.parametrize("args", [(), ("odd",), ("odd", "odder"), (None, 7), (b"x",)])
def test_no_exception_is_too_odd_to_be_read(args: tuple[object, ...]) -> None:
    assert read_fault(Exception(*args), (), sent=True).number == 0


def test_the_first_of_several_messages_counts() -> None:
    # Microsoft's driver tells 4060 (cannot open the database) before 18456 (login failed).
    text = f"[42000] {MS}Cannot open database. (4060) (SQLDriverConnect); [28000] {MS}Login failed. (18456)"
    assert read_fault(Exception("42000", text), (), sent=False).number == 4060


def test_the_servers_words_are_kept_without_the_drivers_names() -> None:
    text = "Lock request time out period exceeded."
    assert read_fault(server_error(1222, text=text), (), sent=True).text == text


def test_a_secret_in_the_servers_words_is_starred_out() -> None:
    fault = read_fault(server_error(18456, "28000", "Login failed, PWD=hunter2."), ("hunter2",), sent=False)
    assert "hunter2" not in f"{fault} {fault.error()}"


@pytest.mark.parametrize("state", ["01S00", "HY000", "IM012", "S1000"])
def test_words_that_may_quote_the_connection_string_are_not_kept(state: str) -> None:
    error = Exception(state, f"[{state}] [unixODBC]Invalid attribute, near 'PWD=hunter2' (0) (SQLDriverConnect)")
    fault = read_fault(error, (), sent=False)
    assert "hunter2" not in f"{fault} {fault.error()}"


def test_a_busy_row_is_a_transient_store_error() -> None:
    error = Fault(Kind.CONTENTION, 1222, "42000", "Lock request time out period exceeded.").error()
    assert isinstance(error, LeaseStoreError)
    assert (error.number, error.sqlstate, error.transient) == (1222, "42000", True)


def test_a_store_whose_connections_are_all_in_use_asked_nothing_and_says_what_to_raise() -> None:
    fault = Fault(Kind.BUSY, text="all 4 were in use for 5 s", sent=False)
    error = fault.error()
    assert isinstance(error, LeaseStoreError)
    assert error.transient
    assert "max_connections" in str(error)
    assert "all 4" in str(error)
    assert not fault.breaks_connection


def test_an_unanswered_question_has_an_unknown_outcome() -> None:
    error = Fault(Kind.MOVED, 0, "HYT00", "Query timeout expired", sent=True).error()
    assert isinstance(error, LeaseStoreError)
    assert error.transient
    assert "unknown" in str(error)


def test_a_server_out_of_reach_says_where_to_look() -> None:
    error = Fault(Kind.MOVED, 0, "08001", "", sent=False).error()
    assert isinstance(error, LeaseStoreError)
    assert "SERVER=" in str(error)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (208, "create_script()"),
        (229, "grant_script()"),
        (262, "create_script()"),
        (2760, "create_script()"),
        (207, "verify()"),
        (8622, "unique"),
        (3906, "read-only"),
        (4060, "DATABASE="),
        (18456, "UID"),
        (40615, "firewall"),
        (51000, "transaction"),
    ],
)
def test_what_somebody_has_to_change_is_a_configuration_error_that_says_what(number: int, told: str) -> None:
    error = read_fault(server_error(number), (), sent=True).error()
    assert isinstance(error, LeaseConfigurationError)
    assert told in str(error)
    assert str(number) in str(error)


class StillClock:
    """A clock that moves when the policy sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def run(clock: StillClock, budget: float, attempt: Callable[[], object]) -> object:
    return Retrying(**retry_policy(clock, budget), sleep=clock.sleep)(attempt)


def failing(*errors: BaseException) -> Callable[[], str]:
    """Fails with each error in turn, then works."""
    left = list(errors)

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return attempt


@pytest.mark.parametrize("kind_of_fault", [Kind.CONTENTION, Kind.MOVED, Kind.THROTTLED, Kind.BUSY])
def test_a_listed_fault_is_tried_again(kind_of_fault: Kind) -> None:
    assert run(StillClock(), 60.0, failing(Retry(Fault(kind_of_fault)))) == "answer"


@pytest.mark.parametrize(
    "error",
    [
        Retry(Fault(Kind.SET_UP, 18456)),
        LeaseError("no"),
        LeaseStoreError("no", transient=True),
        ValueError("no"),
        KeyboardInterrupt(),
        SystemExit(),
    ],
    ids=repr,
)
def test_nothing_else_is_tried_again(error: BaseException) -> None:
    clock = StillClock()
    with pytest.raises(type(error)) as caught:
        run(clock, 60.0, failing(error))
    assert caught.value is error
    assert clock.slept == []


def test_waits_double_from_50_milliseconds_to_one_second_with_jitter() -> None:
    clock = StillClock()
    run(clock, 60.0, failing(*[Retry(Fault(Kind.MOVED))] * 8))
    expected = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    assert len(clock.slept) == len(expected)
    for slept, least in zip(clock.slept, expected, strict=True):
        assert least <= slept <= least + 0.05


def test_a_throttled_caller_stays_away_for_ten_seconds() -> None:
    clock = StillClock()
    run(clock, 60.0, failing(Retry(Fault(Kind.THROTTLED, 40501))))
    assert clock.slept == [10.0]


@pytest.mark.parametrize("budget", [0.0, 0.04, 0.5, 3.0])
def test_no_attempt_starts_after_the_budget(budget: float) -> None:
    clock = StillClock()
    started: list[float] = []

    def attempt() -> None:
        started.append(clock.now() - 1000.0)
        raise Retry(Fault(Kind.MOVED))

    with pytest.raises(Retry):
        run(clock, budget, attempt)
    assert started
    assert max(started) <= budget


def test_the_budget_counts_from_the_call_and_all_of_it_may_be_used() -> None:
    # Seven waits of 0.05, 0.1, 0.2, 0.4, 0.8, 1 and 1 s, each with at most 0.05 s of jitter: there is time for all.
    clock = StillClock()
    assert run(clock, 3.91, failing(*[Retry(Fault(Kind.MOVED))] * 7)) == "answer"


def test_a_clock_that_a_test_has_stopped_makes_no_call_endless() -> None:
    # Waits of at least 0.05, 0.1 and 0.2 s: the third is over the budget in real time.
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    with pytest.raises(Retry):
        Retrying(**retry_policy(StillClock(), 0.3), sleep=sleep)(failing(*[Retry(Fault(Kind.MOVED))] * 10))
    assert len(waits) <= 2


def test_the_last_fault_comes_out_as_it_is() -> None:
    last = Retry(Fault(Kind.CONTENTION, 1205))
    with pytest.raises(Retry) as caught:
        run(StillClock(), 0.0, failing(last))
    assert caught.value is last
