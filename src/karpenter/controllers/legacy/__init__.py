"""Provisioners and AWSNodeTemplates on a live cluster, served as their v1 successors."""
