"""Microsoft's own T-SQL parser (ScriptDom, grammar of SQL Server 2016), for the tests.

`parse_errors` hands texts to a child process, because a .NET runtime inside the test process would bring its own signal
handlers and threads. The child is this file run as a program: a JSON list of texts comes in on standard input, a JSON
list of lists of messages goes out. scripts/setup puts the parser, out of mssql-cli's wheel, into the environment.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ASSEMBLY = Path(sys.prefix) / "scriptdom" / "Microsoft.SqlServer.TransactSql.ScriptDom.dll"
# There are wheels of the runtime for x86-64 Linux only.
EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
_TIMEOUT_SECONDS = 50
_RUNTIME = {
    "runtimeOptions": {
        "tfm": "netcoreapp3.1",
        "framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"},
        "configProperties": {"System.Globalization.Invariant": True},
    }
}


def available() -> bool:
    """Whether the parser and its runtime are installed."""
    return ASSEMBLY.is_file() and all(find_spec(name) for name in ("clr_loader", "dotnetcore2", "pythonnet"))


def parse_errors(texts: list[str]) -> list[list[str]]:
    """For each text the parser's errors, as `line:column number message`; an empty list for a text that parses.

    Quoted identifiers are on. One call starts one process (about a second), so hand over many texts at once.
    """
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_TIMEOUT_SECONDS,
        # Without ICU, which a bare machine does not have.
        env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "DOTNET_CLI_TELEMETRY_OPTOUT": "1"},
        check=False,
    )
    if child.returncode != 0:
        raise RuntimeError(f"ScriptDom ended with {child.returncode}: {child.stderr.strip()}")
    errors: list[list[str]] = json.loads(child.stdout)
    return errors


def _load_parser() -> Any:
    import clr_loader
    import dotnetcore2
    import pythonnet

    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sqllease.runtimeconfig.json"
        config.write_text(json.dumps(_RUNTIME), encoding="utf-8")
        root = Path(dotnetcore2.__file__).parent / "bin"
        pythonnet.load(clr_loader.get_coreclr(dotnet_root=root, runtime_config=config))
    import clr

    clr.AddReference(str(ASSEMBLY.with_suffix("")))
    from Microsoft.SqlServer.TransactSql.ScriptDom import TSql130Parser

    return TSql130Parser(True)


def main() -> None:
    texts: list[str] = json.load(sys.stdin)
    parser = _load_parser()
    from System.IO import StringReader

    answers = []
    for text in texts:
        _tree, errors = parser.Parse(StringReader(text), None)
        answers.append([f"{error.Line}:{error.Column} {error.Number} {error.Message}" for error in errors])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
