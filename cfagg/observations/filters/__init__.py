"""Filters: frames of observations in, frames out."""
