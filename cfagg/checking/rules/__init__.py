"""The rules, a module for each part of the CF conventions; every module here registers its own when it is imported."""
