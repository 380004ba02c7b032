"""The wheel is what users get: all of the package, its T-SQL and its type marker, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_carries_every_file_of_the_package_and_no_tests(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    package = (ROOT / "sqllease").rglob("*")
    expected = {path.relative_to(ROOT).as_posix() for path in package if path.suffix in {".py", ".sql", ".typed"}}
    assert names == expected
    assert "sqllease/py.typed" in names
