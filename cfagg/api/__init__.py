"""The functions of analysis code."""
