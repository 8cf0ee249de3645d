"""The CF layer: units, calendars, missing data and conforming."""
