"""The figures of reports, drawn by matplotlib."""

from explearn.core.extras import check_installed

check_installed("matplotlib", extra="report", what="the report")
