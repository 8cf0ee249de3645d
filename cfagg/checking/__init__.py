"""Checking datasets against the CF conventions."""
