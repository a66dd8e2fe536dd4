"""The answers of the dashboard: costs, plans, reasons, what-ifs and decisions, as documents."""
