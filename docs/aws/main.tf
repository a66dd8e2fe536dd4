# What Karpenter needs in an account: roles, six policies, a queue and the rules that feed it.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.79"
    }
  }
}

variable "cluster_name" {
  type        = string
  description = "The name of the EKS cluster."
}

variable "namespace" {
  type        = string
  default     = "kube-system"
  description = "The namespace the controller runs in."
}

data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}
data "aws_region" "this" {}

locals {
  policies = toset([
    "node-lifecycle", "iam-integration", "eks", "interruption", "zonal-shift", "discovery",
  ])
  places = {
    Partition   = data.aws_partition.this.partition
    Region      = data.aws_region.this.name
    AccountId   = data.aws_caller_identity.this.account_id
    ClusterName = var.cluster_name
  }
  node_policies = toset([
    "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore",
  ])
  events = {
    health               = ["aws.health", "AWS Health Event"]
    spot                 = ["aws.ec2", "EC2 Spot Instance Interruption Warning"]
    rebalance            = ["aws.ec2", "EC2 Instance Rebalance Recommendation"]
    state                = ["aws.ec2", "EC2 Instance State-change Notification"]
    capacity-reservation = ["aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"]
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies
  name     = "Karpenter-${each.key}-${var.cluster_name}"
  policy   = templatefile("${path.module}/policies/${each.key}.json", local.places)
}

resource "aws_iam_role" "controller" {
  name = "KarpenterControllerRole-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each   = aws_iam_policy.controller
  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = "karpenter"
  role_arn        = aws_iam_role.controller.arn
}

resource "aws_iam_role" "node" {
  name = "KarpenterNodeRole-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.${data.aws_partition.this.dns_suffix}" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = local.node_policies
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.this.partition}:iam::aws:policy/${each.key}"
}

resource "aws_eks_access_entry" "node" {
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = ["events.amazonaws.com", "sqs.amazonaws.com"] }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.interruption.arn
      },
      {
        Sid       = "DenyPlainHttp"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.interruption.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each      = local.events
  name          = "karpenter-${var.cluster_name}-${each.key}"
  event_pattern = jsonencode({ source = [each.value[0]], detail-type = [each.value[1]] })
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption
  rule     = each.value.name
  arn      = aws_sqs_queue.interruption.arn
}
