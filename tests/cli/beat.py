"""A job that leaves a trace: its pid and the time, each 20 ms, in a file. Run as a file; standard library only.

beat.py LOG SECONDS [deaf]: deaf ignores TERM.
"""

import os
import signal
import sys
import time

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
end = time.clock_gettime(time.CLOCK_BOOTTIME) + float(sys.argv[2])
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while (now := time.clock_gettime(time.CLOCK_BOOTTIME)) < end:
    os.write(log, f"{os.getpid()} {now:.4f}\n".encode())
    time.sleep(0.02)
