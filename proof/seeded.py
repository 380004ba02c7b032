"""The faults that the mutants have: what is changed where, and which tests must notice.

A mutant's old text must be found in its file, else the run fails: the table cannot rot silently.
"""

from __future__ import annotations

from typing import NamedTuple

OWNER = """
       AND t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
       AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)"""
RELEASE_OWNER = OWNER.replace("\n       ", "\n           ")


class Mutant(NamedTuple):
    """old, new: replaced at every place in sqllease/``file``. tests: pytest's arguments, the quickest that fit."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    # the statements
    Mutant("acquire: no UPDLOCK", "sql/acquire.sql", "(UPDLOCK, HOLDLOCK,", "(HOLDLOCK,", "tests/lease/test_races.py"),
    Mutant("acquire: no HOLDLOCK", "sql/acquire.sql", "(UPDLOCK, HOLDLOCK,", "(UPDLOCK,", "tests/lease/test_races.py"),
    Mutant("renew: any owner", "sql/renew.sql", OWNER, "", "tests/lease/test_other_owner.py"),
    Mutant(
        "renew: any tenure", "sql/renew.sql", "AND t.AcquiredAtUtc = @tenure", "", "tests/lease/test_late_messages.py"
    ),
    Mutant("release: any owner", "sql/release.sql", RELEASE_OWNER, "", "tests/lease/test_other_owner.py"),
    Mutant(
        "release: any tenure",
        "sql/release.sql",
        "AND t.AcquiredAtUtc = @tenure",
        "",
        "tests/lease/test_late_messages.py",
    ),
    Mutant(
        "acquire: expired only behind its expiry",
        "sql/acquire.sql",
        "(t.ExpiresAtUtc <= @takeable",
        "(t.ExpiresAtUtc < @takeable",
        "tests/lease/test_expiry.py",
    ),
    Mutant(
        "acquire: a row lives at its very expiry",
        "sql/acquire.sql",
        "AND t.ExpiresAtUtc > @takeable",
        "AND t.ExpiresAtUtc >= @takeable",
        "tests/lease/test_expiry.py",
    ),
    Mutant(
        "renew: revives at the very expiry",
        "sql/renew.sql",
        "AND t.ExpiresAtUtc > @now",
        "AND t.ExpiresAtUtc >= @now",
        "tests/lease/test_expiry.py",
    ),
    Mutant("renew: revives", "sql/renew.sql", "AND t.ExpiresAtUtc > @now", "", "tests/lease/test_expiry.py"),
    Mutant(
        "renew: moves an expiry back",
        "sql/renew.sql",
        "CASE WHEN t.ExpiresAtUtc > @expires THEN t.ExpiresAtUtc ELSE @expires END",
        "@expires",
        "tests/lease/test_expiry.py tests/lease/test_hold_at_least.py",
    ),
    Mutant(
        "acquire: no grace",
        "sql/acquire.sql",
        "DATEADD(microsecond, -@grace_us, DATEADD(second, -@grace_s, @now))",
        "@now",
        "tests/lease/test_expiry.py",
    ),
    Mutant(
        "acquire: a tenure may begin where the last one did",
        "sql/acquire.sql",
        "CASE WHEN @last >= @now THEN DATEADD(nanosecond, 100, @last) ELSE @now END",
        "@now",
        "tests/lease/test_expiry.py tests/lease/test_contract.py tests/lease/test_late_messages.py",
    ),
    Mutant(
        "acquire: its own row keeps it out",
        "sql/acquire.sql",
        "AND NOT (t.OwnerInstanceId = @owner COLLATE",
        "AND NOT (t.OwnerInstanceId <> @owner COLLATE",
        "tests/lease/test_contract.py",
    ),
    Mutant(
        "sweep: no bound",
        "sql/sweep.sql",
        "SELECT TOP ($(sweep_limit))",
        "SELECT TOP (1000000)",
        "tests/lease/test_sweep.py",
    ),
    Mutant("sweep: waits for locks", "sql/sweep.sql", "SET LOCK_TIMEOUT 0;", "", "tests/lease/test_sweep.py"),
    Mutant(
        "sweep: unexpired rows too",
        "sql/sweep.sql",
        "DATEADD(second, -$(sweep_after_s), @now)",
        "DATEADD(second, $(sweep_after_s), @now)",
        "tests/lease/test_sweep.py",
    ),
    Mutant(
        "batches: endless lock waits",
        "sql/session.sql",
        "SET LOCK_TIMEOUT $(lock_timeout_ms);",
        "",
        "tests/lease/test_contention.py",
    ),
    Mutant(
        "batches: an open transaction is not refused",
        "sql/session.sql",
        "IF @@TRANCOUNT > 0",
        "IF @@TRANCOUNT > 99",
        "tests/lease/test_connections.py tests/lease/test_surroundings.py",
    ),
    Mutant(
        "answers: done in spite of an error",
        "sql/answer.sql",
        "ON @err = 0",
        "ON @err <> 99999",
        "tests/lease/test_watched_tables.py -k 'undoes or put_out'",
    ),
    Mutant(
        "break: any owner",
        "sql/break.sql",
        "AND ((t.OwnerInstanceId = @owner COLLATE",
        "AND ((t.OwnerInstanceId <> @owner COLLATE",
        "tests/lease/test_inspection.py",
    ),
    # belief
    Mutant(
        "acquire: deadline from the receive time",
        "calls.py",
        "lease._belief.won(done, self._sent_at, self.options)",
        "lease._belief.won(done, lease._clock.now(), self.options)",
        "tests/lease/test_deadline.py",
    ),
    Mutant(
        "renew: deadline from the receive time",
        "calls.py",
        "belief.renewed(answer.done, self._sent_at, self.options)",
        "belief.renewed(answer.done, lease._clock.now(), self.options)",
        "tests/lease/test_deadline.py",
    ),
    Mutant("no margin", "tenure.py", " - options.safety_margin", "", "tests/unit/test_tenure.py"),
    Mutant(
        "a renewal replaces the token",
        "tenure.py",
        "Tenure(known.began, known.token,",
        "Tenure(known.began, done.version,",
        "tests/unit/test_tenure.py",
    ),
    Mutant(
        "held until the release is answered",
        "calls.py",
        "lease._end_tenure()",
        "lease._belief = lease._belief.doubtful()",
        "tests/unit/test_calls.py tests/lease/test_belief.py",
    ),
    Mutant(
        "a late answer revives what is being given back",
        "base.py",
        "        self._era += 1  # before the belief: see _believe\n",
        "",
        "tests/hold/test_late_answers.py",
    ),
    Mutant(
        "acquire: a later hold is not in the row",
        "sql/acquire.sql",
        "IF @kept_until < @expires",
        "IF 1 = 1",
        "tests/lease/test_hold_at_least.py",
    ),
    Mutant(
        "a lock that was not given back is forgotten",
        "providers.py",
        "            self._remember(found.lease, found.lease.try_release)\n            raise\n",
        "            raise\n",
        "tests/providers/test_unanswered.py",
    ),
    Mutant(
        "reads: an open transaction of the pool's stays open",
        "statements.py",
        '("session", "inspect")',
        '("inspect",)',
        "tests/lease/test_connections.py -k of_a_store",
    ),
    Mutant(
        "a tenure that was given back goes on",
        "calls.py",
        "keep=belief.tenure is not None",
        "keep=belief.last is not None",
        "tests/lease/test_late_messages.py",
    ),
    Mutant(
        "a retry is another owner",
        "calls.py",
        "        self._about_to_send()\n        self._sweeping",
        '        if self._asked:\n            lease._owner_id += "x"\n'
        "        self._about_to_send()\n        self._sweeping",
        "tests/lease/test_wire_faults.py",
    ),
    Mutant(
        "an answer that came too late is True",
        "grants.py",
        "if not lease.held:",
        "if lease is None:",
        "tests/unit/test_grants.py tests/unit/test_calls.py tests/lease/test_late_messages.py",
    ),
    Mutant(
        "what was won too late is kept",
        "grants.py",
        "give_back=True,",
        "give_back=False,",
        "tests/unit/test_grants.py tests/lease/test_late_messages.py",
    ),
    Mutant(
        "an answer for another name counts",
        "answers.py",
        "if done_name != name or done_owner != owner_id:",
        "if done_name is name is None:",
        "tests/unit/test_answers.py",
    ),
    Mutant("a fork holds too", "base.py", "self._pid == os.getpid()", "self._pid > 0", "tests/lease/test_fork.py"),
    Mutant(
        "a release always rests",
        "calls.py",
        "rest = self._tenure == lease._belief.granted",
        "rest = True",
        "tests/lease/test_hold_at_least.py tests/lease/test_doubt.py",
    ),
    # the way to the server
    Mutant(
        "the answer is a row count",
        "connection.py",
        "rows = cursor.fetchall()\n                if not",
        "rows = cursor.fetchall() if cursor.rowcount > 0 else []\n                if not",
        "tests/lease/test_contract.py",
    ),
    Mutant(
        "a doubtful connection is used again",
        "faults.py",
        "return self.kind in (Kind.MOVED, Kind.THROTTLED)",
        "return self.kind is Kind.THROTTLED",
        "tests/unit/test_faults.py tests/lease/test_connections.py",
    ),
    Mutant("a lock time-out is no contention", "faults.py", " 1221, 1222,", " 1221,", "tests/unit/test_faults.py"),
    Mutant(
        "names may end in a blank",
        "names.py",
        "    if checked != checked.strip():",
        "    if not checked.strip():",
        "tests/unit/test_names.py",
    ),
    # the replica
    Mutant(
        "confirmed by equality only",
        "replica.py",
        "if version >= self._tenure.version",
        "if version == self._tenure.version",
        "tests/unit/test_confirmation.py",
    ),
    Mutant(
        "confirmed by an older version",
        "replica.py",
        "if version >= self._tenure.version",
        "if version > 0",
        "tests/unit/test_confirmation.py",
    ),
    Mutant(
        "the primary confirms itself",
        "replica.py",
        'if updateability != "READ_ONLY":',
        'if updateability == "":',
        "tests/unit/test_confirmation.py",
    ),
    # holds
    Mutant(
        "the release goes before the join",
        "keepalive.py",
        "        self._renew.join(max(0.0, patience))\n        return not self._renew.is_alive()",
        "        return True",
        "tests/hold/test_leaving.py tests/hold/test_late_answers.py",
    ),
    Mutant(
        "an error of a renewal is a loss",
        "keepalive.py",
        "        journal.keep_alive_failed(error, attempt)\n        return False",
        '        hold.lost.set("a renewal failed", error)\n        return None',
        "tests/hold/test_keepalive.py",
    ),
    # the fence
    Mutant(
        "fence: a plain read",
        "sql/fence.sql",
        "(REPEATABLEREAD, ROWLOCK, FORCESEEK)",
        "(ROWLOCK, FORCESEEK)",
        "tests/fence/test_fence.py -k take_over",
    ),
    Mutant(
        "fence: an update lock",
        "sql/fence.sql",
        "(REPEATABLEREAD,",
        "(UPDLOCK,",
        "tests/fence/test_fence.py -k neighbours",
    ),
    Mutant(
        "fence: any tenure",
        "sql/fence.sql",
        "AND t.AcquiredAtUtc = @tenure",
        "",
        "tests/fence/test_fence.py -k take_over",
    ),
    Mutant(
        "fence: autocommit will do",
        "sql/fence.sql",
        "IF @@TRANCOUNT = 0 AND",
        "IF @@TRANCOUNT = 99 AND",
        "tests/fence/test_fence.py -k autocommit",
    ),
    Mutant("fence: SNAPSHOT will do", "sql/fence.sql", "= 5", "= 6", "tests/fence/test_fence.py -k snapshot"),
    Mutant(
        "fence: the present tenure, not that of the entry",
        "fence.py",
        "        check(Fence(lease, began), connection)\n",
        "        check(Fence(lease, lease.tenure), connection)\n",
        "tests/fence/test_fenced.py -k 'in_between and sync'",
    ),
    Mutant(
        "fence: any token",
        "fence.py",
        "if token is not None and token != present.token:",
        "if token is not None and token == 0:",
        "tests/fence/test_fence.py -k token",
    ),
    Mutant(
        "fence script: a plain read",
        "sql/fence_script.sql",
        "(REPEATABLEREAD, ROWLOCK, FORCESEEK)",
        "(ROWLOCK, FORCESEEK)",
        "tests/fence/test_fence_script.py",
    ),
)
QUICK = (
    "renew: any tenure",
    "no margin",
    "a renewal replaces the token",
    "confirmed by an older version",
    "an answer for another name counts",
)
