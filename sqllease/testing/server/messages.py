"""Client messages after login as calls: SQL batch (MS-TDS 2.2.6.7), remote procedure call (2.2.6.6), transaction
manager request (2.2.6.9). Reads only; what a call does is the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .encoding import read_parameter
from .requestlog import Request
from .sqltypes import PROC_IDS, Moment, RpcParameter, Value, unsupported
from .wire import Kind, Message, Reader, utf16

_STATEMENT_AT = {"sp_executesql": 0, "sp_prepare": 2, "sp_prepexec": 2, "sp_describe_undeclared_parameters": 0}
_VALUES_FROM = {"sp_executesql": 2, "sp_prepare": 3, "sp_prepexec": 3, "sp_execute": 1}
_BEGIN, _COMMIT, _ROLLBACK = 5, 7, 8
_ANOTHER_CALL = 0xFF


@dataclass(slots=True)
class Call:
    """One thing to execute. ``kind``: batch, rpc, begin, commit, rollback."""

    kind: str
    text: str = ""
    procedure: str | int = ""
    parameters: list[RpcParameter] = field(default_factory=list)
    isolation: int = 0
    begin_next: bool = False

    def entry(self, session: int, time: Moment, prepared: Mapping[Value, str], *, same_message: bool) -> Request:
        """The call as the request log shows it. ``prepared``: the statements behind the session's handles."""
        name, text, values = "", self.text, self.parameters
        if self.kind == "rpc":
            name = PROC_IDS.get(self.procedure, str(self.procedure)) if isinstance(self.procedure, int) else ""
            name = name or str(self.procedure).split(".")[-1].strip("[]")
            at = _STATEMENT_AT.get(name)
            if at is not None and at < len(values) and isinstance(values[at].value, str):
                text = str(values[at].value)
            if name == "sp_execute" and values:
                text = prepared.get(values[0].value, "")
            values = values[_VALUES_FROM.get(name, 0) :]
        types = tuple(str(parameter.type) for parameter in values)
        return Request(self.kind, session, text, name, types, time, same_message)


def read_calls(message: Message) -> list[Call]:
    """The calls of a message. Raises SqlError for what is not supported."""
    reader = Reader(message.data)
    if message.kind not in (Kind.BATCH, Kind.RPC, Kind.TRANSACTION):
        raise unsupported("BULK INSERT" if message.kind == Kind.BULK_LOAD else f"request of type 0x{message.kind:02X}")
    reader.take(max(reader.u32() - 4, 0))  # ALL_HEADERS: the transaction descriptor, which the session knows
    if message.kind == Kind.BATCH:
        return [Call("batch", utf16(reader.take(len(message.data) - reader.position)))]
    if message.kind == Kind.TRANSACTION:
        return [_transaction(reader)]
    calls = [_procedure_call(reader)]
    while not reader.at_end:
        calls.append(_procedure_call(reader))
    return calls


def _transaction(reader: Reader) -> Call:
    request = reader.u16()
    if request == _BEGIN:
        return Call("begin", isolation=reader.u8())
    if request not in (_COMMIT, _ROLLBACK):
        raise unsupported(f"transaction manager request {request}")
    reader.b_varchar()
    begin_next = bool(reader.u8() & 1)
    if begin_next and reader.u8():
        raise unsupported("isolation level of a chained transaction")
    return Call("commit" if request == _COMMIT else "rollback", begin_next=begin_next)


def _procedure_call(reader: Reader) -> Call:
    units = reader.u16()
    call = Call("rpc", procedure=reader.u16() if units == 0xFFFF else reader.text(units))
    reader.u16()
    while not reader.at_end:
        if reader.data[reader.position] == _ANOTHER_CALL:
            reader.u8()
            break
        name = reader.b_varchar()
        flags = reader.u8()
        sql_type, value = read_parameter(reader)
        if flags & 0x02:
            raise unsupported("DEFAULT in a remote procedure call")
        call.parameters.append(RpcParameter(name, sql_type, value, output=bool(flags & 0x01)))
    return call
