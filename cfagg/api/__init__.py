"""The functions of analysis code, over all rooms."""
