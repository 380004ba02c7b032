"""The engine without a wire: sessions that a test lets run statements, one after another or at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqllease.testing.server.engine import Engine
from sqllease.testing.server.scheduler import Task
from sqllease.testing.server.session import Session
from sqllease.testing.server.sqltypes import LoginRequest, ResultColumn, RpcParameter, SqlError, SqlType, Value

PASSWORD = "a password"


class Answer:
    """What a request sent, taken apart."""

    def __init__(self) -> None:
        self.results: list[list[tuple[Value, ...]]] = []
        self.columns_of: list[list[ResultColumn]] = []
        self.counts: list[int | None] = []
        self.errors: list[SqlError] = []
        self.infos: list[tuple[int, str]] = []
        self.transactions: list[str] = []
        self.databases: list[str] = []
        self.status: int | None = None
        self.values: list[tuple[str, SqlType, Value]] = []

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        self.columns_of.append(list(columns))
        self.results.append([])

    def row(self, values: Sequence[Value]) -> None:
        self.results[-1].append(tuple(values))

    def done(self, count: int | None, *, is_select: bool = False) -> None:
        self.counts.append(count)

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        self.infos.append((number, message))

    def error(self, error: SqlError) -> None:
        self.errors.append(error)

    def database(self, new: str, old: str) -> None:
        self.databases.append(new)

    def transaction_begun(self, descriptor: int) -> None:
        self.transactions.append("begun")

    def transaction_ended(self, descriptor: int, *, committed: bool) -> None:
        self.transactions.append("committed" if committed else "rolled back")

    def return_status(self, status: int) -> None:
        self.status = status

    def return_value(self, name: str, type: SqlType, value: Value) -> None:
        self.values.append((name, type, value))

    @property
    def rows(self) -> list[tuple[Value, ...]]:
        """The rows of the only result."""
        assert len(self.results) == 1, (self.results, [str(error) for error in self.errors])
        return self.results[0]

    @property
    def value(self) -> Value:
        """The only value of the only row."""
        ((value,),) = self.rows
        return value

    @property
    def numbers(self) -> list[int]:
        return [error.number for error in self.errors]

    @property
    def printed(self) -> list[str]:
        return [text for number, text in self.infos if number == 0]


class User:
    """One session."""

    def __init__(self, desk: Desk, session: Session) -> None:
        self.desk = desk
        self.session = session

    def start(self, text: str) -> tuple[Task, Answer]:
        """Begins a batch; it runs as far as it can, and on whenever the desk lets others run."""
        answer = Answer()
        task = self.desk.engine.scheduler.spawn(lambda: self.session.run_batch(text, answer))
        self.desk.engine.scheduler.run()
        return task, answer

    def run(self, text: str) -> Answer:
        """Runs a batch that waits for nobody."""
        task, answer = self.start(text)
        self.desk.settle(task)
        return answer

    def ok(self, text: str) -> Answer:
        """As run, but no error may come."""
        answer = self.run(text)
        assert not answer.errors, [f"{error.number} {error}" for error in answer.errors]
        return answer

    def call(self, procedure: str | int, *parameters: RpcParameter) -> Answer:
        answer = Answer()
        task = self.desk.engine.scheduler.spawn(lambda: self.session.run_rpc(procedure, parameters, answer))
        self.desk.engine.scheduler.run()
        self.desk.settle(task)
        return answer


class Desk:
    """An engine with a frozen clock; tasks switch only where they wait, unless told otherwise."""

    def __init__(self, seed: int = 0, switch_probability: float = 0) -> None:
        self.engine = Engine(seed=seed, password=PASSWORD)
        self.engine.clock.freeze()
        self.engine.scheduler.switch_probability = switch_probability
        self.sa = self.login()

    def login(self, user: str = "sa", password: str = PASSWORD, database: str = "") -> User:
        return User(self, self.engine.login(LoginRequest(user, password, database)))

    def advance(self, seconds: float) -> None:
        self.engine.clock.advance(seconds)
        self.engine.clock.run_due()
        self.engine.scheduler.run()

    def settle(self, *tasks: Task) -> None:
        """Until these tasks have ended; short sleeps of theirs pass at once."""
        scheduler, clock = self.engine.scheduler, self.engine.clock
        for _ in range(100_000):
            scheduler.run()
            if all(task.done for task in tasks):
                break
            clock.run_due()
        for task in tasks:
            assert task.done, "it still waits"
            if task.error is not None:
                raise task.error

    def together(self, *scripts: tuple[User, str]) -> list[Answer]:
        """Runs batches of several sessions at the same time, in an order that the seed decides."""
        answers = [Answer() for _ in scripts]

        def job(user: User, text: str, answer: Answer) -> Any:
            return lambda: user.session.run_batch(text, answer)

        jobs = [job(user, text, answer) for (user, text), answer in zip(scripts, answers, strict=True)]
        tasks = [self.engine.scheduler.spawn(each) for each in jobs]
        self.settle(*tasks)
        return answers
