"""User data: the boot script of an instance, for each AMI family."""
