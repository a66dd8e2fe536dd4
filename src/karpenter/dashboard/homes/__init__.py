"""The homes of a dashboard: what each has to show, put together with what serves it."""
