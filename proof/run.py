"""One seed of the simulation: contenders as processes, the weather that they meet, and what must hold at every step.

Within the bound of exclusion nothing may go wrong. Knows nothing of seeds to choose or of reports.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqllease.faults import Fault
from sqllease.options import LeaseOptions, ReplicaOptions

from .contender import NAME, UNANSWERED, Contender, Rules, Script, Send, Sleep
from .model import Table, text
from .network import CALM, Network, Weather, World

OPTIONS = LeaseOptions(duration=10, takeover_grace=0.5, safety_margin=1.0, command_timeout=1, sweep_limit=0)
BOUND_S = OPTIONS.safety_margin + OPTIONS.takeover_grace
DRIFT = 0.02
STEP_S = 0.55
SKEW_S = 0.7
assert DRIFT * OPTIONS.duration + STEP_S + SKEW_S < BOUND_S, "the clocks must stay within what the lease promises"
BACK_S = 2.0
"""The servers' clocks may be set back by so much: a row then lasts longer."""
STORM_S, CALM_S = 60.0, 60.0
TAKEN_WITHIN_S = Weather().slowest + OPTIONS.duration + OPTIONS.takeover_grace + BACK_S + 8.0
"""In calm: the last message of the storm has arrived, the row that it made has expired, and who polls has asked."""

ALL_RULES = Rules()


class Violation(Exception):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run is made of."""

    contenders: int = 4
    confirm: bool = False
    lossy: bool = False
    beyond: bool = False  # forward steps of the servers' clocks that the bound does not cover
    rules: Rules = ALL_RULES


class LocalClock:
    """A contender's clock: it drifts."""

    def __init__(self, world: World, rate: float) -> None:
        self._world, self._rate = world, rate

    def now(self) -> float:
        return 1_000.0 + self._world.now * self._rate


@dataclass
class Process:
    """One contender as the world sees it: its script, its pauses, and the answer that it waits for."""

    contender: Contender
    script: Script
    rate: float
    waiting: int = 0
    paused_until: float = 0.0
    dead: bool = False


class Run:
    """One seed."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.world = World(seed)
        self.plan = plan
        self.table = Table(NAME, sloppy=not plan.rules.tenure)
        self.network = Network(self.world, Weather())
        self._processes: list[Process] = []
        self._born = 0
        self._committed: list[tuple[str, str]] = []
        self._tokens: list[tuple[str, int]] = []
        self._free_since: float | None = None
        self._gone: set[tuple[str, str]] = set()
        self.seen: Counter[str] = Counter()
        for _ in range(plan.contenders):
            self._start()
        self._plan_weather()

    def steps(self, count: int) -> None:
        """So many events. Raises Violation."""
        for _ in range(count):
            self.world.step()
            self._check()

    # --- processes ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._born += 1
        rate = self.world.random.uniform(1 - DRIFT, 1 + DRIFT)
        replica = ReplicaOptions("none", timeout=2.0, poll_interval=0.2) if self.plan.confirm else None
        clock, rules, chance = LocalClock(self.world, rate), self.plan.rules, self.world.random
        contender = Contender(f"p{self._born}", clock, OPTIONS, replica, rules, chance)
        process = Process(contender, contender.live(), rate)
        self._processes.append(process)
        self._resume(process, None)

    def _resume(self, process: Process, answer: object) -> None:
        """The process goes on with an answer, unless it is dead; a paused one when it wakes."""
        if process.dead:
            return
        turn = process.waiting
        if process.paused_until > self.world.now:
            self.world.after(process.paused_until - self.world.now, lambda: self._wake(process, turn, answer))
            return
        process.waiting = turn = turn + 1
        effect = process.script.send(answer)
        if isinstance(effect, Sleep):
            self.world.after(effect.seconds / process.rate, lambda: self._wake(process, turn, None))
        else:
            self._send(process, turn, effect)

    def _wake(self, process: Process, turn: int, answer: object) -> None:
        """What came too late finds another turn, and changes nothing."""
        if process.waiting == turn:
            self._resume(process, answer)

    def _send(self, process: Process, turn: int, message: Send) -> None:
        owner = process.contender.lease.owner_id
        self.world.note(f"{owner} sends {message.verb}")
        timeout = OPTIONS.command_timeout * self.world.random.choice((1, 1, 2, 3))
        self.world.after(timeout / process.rate, lambda: self._wake(process, turn, UNANSWERED))

        def arrive() -> None:
            answer = self._execute(process, message)
            if not isinstance(answer, Fault):
                self.world.note(f"server does {message.verb} of {owner}: {self._shown(message, answer)}")
                self.network.carry(lambda: self._wake(process, turn, answer))

        self.network.carry(arrive)

    def _execute(self, process: Process, message: Send) -> object:
        table, now = self.table, self.world.now
        match message.verb:
            case "acquire":
                return [table.acquire(message.parameters, now)]
            case "renew":
                return [table.renew(message.parameters, now)]
            case "release":
                answer = table.release(message.parameters, now)
                if answer[1] is not None:
                    self._gone.add((answer[2], message.parameters[2]))
                    self.seen["releases"] += 1
                return [answer]
            case "find":
                return table.get(message.parameters, now)
            case "look":
                return [table.look(message.parameters, now)]
            case "fence":
                link, owner, tenure = message.parameters
                passed = table.fence(owner, tenure, link)
                self.seen["fences passed" if passed else "fences refused"] += 1
                if passed:
                    # A client that does not come back: its link is cut, its transaction rolled back.
                    self.world.after(3.0, lambda: table.unlock(link))
                return passed
            case _:
                link, tenure = message.parameters
                if link not in table.primary.fenced_by:
                    return False
                table.unlock(link)
                self._commit(process.contender.lease.owner_id, tenure)
                return True

    def _commit(self, owner: str, tenure: str) -> None:
        """A fenced write of an ended tenure must never come after one of the next."""
        writer = (owner, tenure)
        if self._committed and self._committed[-1] != writer and writer in self._committed:
            raise Violation(f"a fenced write of {owner} came after one of a later tenure")
        self._committed.append(writer)
        del self._committed[:-50]

    # --- the weather --------------------------------------------------------------------------------------------

    def _plan_weather(self) -> None:
        chance, world = self.world.random, self.world

        def pause() -> None:
            if self.network.weather is not CALM:
                process = chance.choice(self._processes)
                process.paused_until = world.now + chance.expovariate(1 / 6)
                self._note("pauses", f"{process.contender.lease.owner_id} is paused")
            world.after(chance.expovariate(1 / 25), pause)

        def crash() -> None:
            if self.network.weather is not CALM:
                process = chance.choice(self._processes)
                process.dead = True
                self._processes.remove(process)
                for link in [*self.table.primary.fenced_by]:
                    if link.startswith(f"{process.contender.lease.owner_id}-"):
                        self.table.unlock(link)
                self._note("crashes", f"{process.contender.lease.owner_id} has crashed")
                self._start()
            world.after(chance.expovariate(1 / 120), crash)

        def step_clock() -> None:
            self._shift(chance.uniform(-BACK_S, OPTIONS.duration if self.plan.beyond else STEP_S))
            world.after(OPTIONS.duration + 2 + chance.expovariate(1 / 60), step_clock)

        def fail_over() -> None:
            if self.network.weather is not CALM:
                self.table.fail_over(lose_tail=self.plan.lossy)
                if self.plan.lossy:
                    self._gone.clear()  # what was lost may have been a release
                self._note(
                    "failovers", f"failover to {self.table.primary.name}, clock {self.table.primary.offset:+.2f} s"
                )
            world.after(OPTIONS.duration + 2 + chance.expovariate(1 / 40), fail_over)

        def apply() -> None:
            self.table.apply_one()
            world.after(chance.expovariate(1 / 0.15) if chance.random() < 0.97 else chance.uniform(0.5, 4), apply)

        def quiet() -> None:
            self.network.weather = CALM
            self._free_since = world.now
            self._note("calms", "calm")
            world.after(CALM_S, storm)

        def storm() -> None:
            self.network.weather = Weather()
            self._free_since = None
            world.after(STORM_S, quiet)

        self.table.secondary.offset = chance.uniform(-SKEW_S, SKEW_S) / 2
        world.after(chance.uniform(0.5, 2) * STORM_S, quiet)
        world.after(chance.uniform(5, 30), pause)
        world.after(chance.uniform(5, 60), crash)
        world.after(chance.uniform(5, 40), step_clock)
        world.after(chance.uniform(5, 40), fail_over)
        world.after(0.1, apply)

    def _shift(self, step: float) -> None:
        """One clock for both servers steps: their skew stays, and the step is seen once."""
        self.table.primary.offset += step
        self.table.secondary.offset += step
        self._note("clock steps", f"the servers' clocks step by {step:+.2f} s")

    def _note(self, kind: str, what: str) -> None:
        self.seen[kind] += 1
        self.world.note(what)

    # --- what must hold -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        holders = [process for process in self._processes if process.contender.lease.held]
        if len(holders) > 1:
            names = " and ".join(process.contender.lease.owner_id for process in holders)
            raise Violation(f"{names} both hold")
        for process in self._processes:
            fresh, process.contender.tokens = process.contender.tokens, []
            for token in fresh:
                if self._tokens and token <= self._tokens[-1][1]:
                    raise Violation(f"token {token} does not rise above {self._tokens[-1][1]}")
                self._tokens.append((process.contender.lease.owner_id, token))
                self.seen["tenures"] += 1
        row = self.table.primary.row
        if row is not None and (row.owner, text(row.acquired)) in self._gone:
            raise Violation(f"the tenure of {row.owner} is back, which was released")
        if self._free_since is not None:
            if holders or not any(self._asks(process) for process in self._processes):
                self._free_since = self.world.now
            elif self.world.now - self._free_since > TAKEN_WITHIN_S:
                raise Violation(f"nobody has taken the lease in {TAKEN_WITHIN_S:g} s of calm")

    def _asks(self, process: Process) -> bool:
        return process.contender.asks and process.paused_until <= self.world.now

    def _shown(self, message: Send, answer: object) -> str:
        if isinstance(answer, list) and answer and isinstance(answer[0], tuple) and len(answer[0]) == 14:
            row = answer[0]
            if row[1] is not None:
                return f"done, tenure {row[4][11:27]}, version {row[6]}"
            return f"error {row[0]}" if row[0] else f"not done, row of {row[8]}"
        return str(answer)
