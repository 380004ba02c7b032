"""The demo: what the library is for, shown as it happens, on the stand-in server or on a real one."""
