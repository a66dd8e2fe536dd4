"""The AWS provider: EC2 instances, through boto3."""
