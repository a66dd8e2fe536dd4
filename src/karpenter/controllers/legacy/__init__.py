"""Provisioners and AWSNodeTemplates on a live cluster, honoured as what they are today."""
