"""Pages that a browser shows without a network: charts as inline SVG, tables, one file or one folder."""

from gpbounds.pages.chart import Chart
from gpbounds.pages.claims import claims_page
from gpbounds.pages.html import Markup, document, escaped, table
from gpbounds.pages.marks import Band, Bars, Dots, Level, Line

__all__ = ["Band", "Bars", "Chart", "Dots", "Level", "Line", "Markup", "claims_page", "document", "escaped", "table"]
