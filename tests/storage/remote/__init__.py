"""Data on other machines, against real servers on this one."""
