"""EC2NodeClasses: status, conditions, validation, instance profiles and clean-up."""
