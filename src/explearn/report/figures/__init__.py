"""The figures of reports, drawn by matplotlib."""
