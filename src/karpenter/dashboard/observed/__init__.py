"""What was seen of decisions that another controller makes: records of what happened, not of why."""
