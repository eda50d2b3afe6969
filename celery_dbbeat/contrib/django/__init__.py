"""Schedules in a Django project: their tables in its database, their pages in its admin.

    INSTALLED_APPS = [..., "celery_dbbeat.contrib.django"]

is all. `manage.py migrate` makes the tables, by the same migrations as `dbbeat migrate`; where
`dbbeat_url` is not set, the schedules live in the database DBBEAT_DATABASE of DATABASES ("default"
unless told otherwise).
"""
