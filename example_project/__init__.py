"""Invoices and reports: a small application whose periodic tasks celery-dbbeat schedules."""
