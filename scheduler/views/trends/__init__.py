"""What charts show: spending, and how runs ended, by the hour or the day."""
