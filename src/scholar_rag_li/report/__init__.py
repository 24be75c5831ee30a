"""Reports, drawn from a result folder: no model, no database."""

from scholar_rag_li.report.conclusions import conclusions
from scholar_rag_li.report.markdown import report, write_report
from scholar_rag_li.report.tables import Table, study_tables

__all__ = ["Table", "conclusions", "report", "study_tables", "write_report"]
