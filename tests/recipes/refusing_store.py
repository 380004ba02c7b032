"""A store that refuses what an older tenure writes: for data that is not in the lease table's database.

Each write carries the token of its tenure and the owner; the store remembers the highest that it has seen for each
piece of data. SQLite stands for any store that can do one conditional write.
"""

from __future__ import annotations

import sqlite3


class RefusingStore:
    """A key-value store with a memory of tokens."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS Data (Name TEXT PRIMARY KEY, Value TEXT, Token INTEGER, Owner TEXT)"
        )

    def write(self, name: str, value: str, token: int, owner: str) -> bool:
        """False: a later tenure has written, or another owner with the same token; stop."""
        done = self._database.execute(
            "INSERT INTO Data VALUES (?, ?, ?, ?) ON CONFLICT (Name) DO UPDATE SET "
            "Value = excluded.Value, Token = excluded.Token, Owner = excluded.Owner "
            "WHERE excluded.Token > Data.Token OR (excluded.Token = Data.Token AND excluded.Owner = Data.Owner)",
            (name, value, token, owner),
        )
        return done.rowcount == 1

    def read(self, name: str) -> str | None:
        """What was written last."""
        row = self._database.execute("SELECT Value FROM Data WHERE Name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._database.close()
