{{/* How values become the environment of the controller. */}}

{{- define "karpenter.provider" -}}
{{- $settings := .Values.settings }}
{{- if $settings.provider }}
{{- $settings.provider }}
{{- else if $settings.clusterName }}
{{- "aws" }}
{{- else }}
{{- "kwok" }}
{{- end }}
{{- end }}

{{/* A list of gates such as NodeOverlay=true; only those that are set. */}}
{{- define "karpenter.gates" -}}
{{- $gates := list }}
{{- range $name, $is_on := . }}
{{- if not (kindIs "invalid" $is_on) }}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $is_on) }}
{{- end }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{/* Variables of a table of settings. False and 0 are values; nothing and empty text are not. */}}
{{- define "karpenter.variables" -}}
{{- $root := .root }}
{{- range $name, $variable := .table }}
{{- $value := index $root.Values.settings $name }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ $variable }}
  value: {{ tpl (toString $value) $root | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the configuration of notifications is mounted; its secrets are in a folder of their own. */}}
{{- define "karpenter.notificationsFolder" -}}
{{- "/etc/karpenter/notifications-config" }}
{{- end }}

{{- define "karpenter.notificationVolumes" -}}
{{- if .Values.notifications.config }}
- name: notifications-config
  configMap:
    name: {{ include "karpenter.fullname" . }}-notifications
{{- end }}
{{- with .Values.notifications.existingSecret }}
- name: notifications
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "karpenter.notificationMounts" -}}
{{- if .Values.notifications.config }}
- name: notifications-config
  mountPath: {{ include "karpenter.notificationsFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.notifications.existingSecret }}
- name: notifications
  mountPath: /etc/karpenter/notifications
  readOnly: true
{{- end }}
{{- end }}

{{/* The Secret with the token of the controllers' dashboard, and where it is mounted. */}}
{{- define "karpenter.dashboardTokenSecret" -}}
{{- default (printf "%s-controller-dashboard" (include "karpenter.fullname" .)) .Values.controller.dashboard.tokenSecret }}
{{- end }}

{{- define "karpenter.dashboardTokenFolder" -}}
{{- "/etc/karpenter-dashboard/token" }}
{{- end }}

{{- define "karpenter.dashboardVolumes" -}}
{{- if .Values.controller.dashboard.enabled }}
- name: dashboard-token
  secret:
    secretName: {{ include "karpenter.dashboardTokenSecret" . | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "karpenter.dashboardMounts" -}}
{{- if .Values.controller.dashboard.enabled }}
- name: dashboard-token
  mountPath: {{ include "karpenter.dashboardTokenFolder" . }}
  readOnly: true
{{- end }}
{{- end }}

{{- define "karpenter.environment" -}}
{{- $settings := .Values.settings }}
{{- $provider := include "karpenter.provider" . }}
- name: CLOUD_PROVIDER
  value: {{ $provider | quote }}
- name: METRICS_PORT
  value: {{ .Values.controller.metrics.port | quote }}
- name: HEALTH_PROBE_PORT
  value: {{ .Values.controller.healthProbe.port | quote }}
{{- if .Values.controller.dashboard.enabled }}
- name: DASHBOARD_PORT
  value: {{ .Values.controller.dashboard.port | quote }}
- name: DASHBOARD_TOKEN_FILE
  value: {{ include "karpenter.dashboardTokenFolder" . }}/token
{{- end }}
- name: LEADER_ELECTION_NAMESPACE
  value: {{ .Release.Namespace | quote }}
{{- if .Values.webhook.enabled }}
- name: WEBHOOK_PORT
  value: {{ .Values.webhook.port | quote }}
- name: KARPENTER_SERVICE
  value: {{ include "karpenter.fullname" . }}-webhook
- name: WEBHOOK_CERTIFICATES
  value: {{ .Values.webhook.certManager.enabled | ternary "external" "own" }}
{{- end }}
{{- with .Values.logLevel }}
- name: LOG_LEVEL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.logOutputPaths }}
- name: LOG_OUTPUT_PATHS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.logErrorOutputPaths }}
- name: LOG_ERROR_OUTPUT_PATHS
  value: {{ join "," . | quote }}
{{- end }}
{{- if dig "limits" "memory" "" .Values.controller.resources }}
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      divisor: "1"
      resource: limits.memory
{{- end }}
{{- include "karpenter.variables" (dict "root" . "table" (dict
  "leaderElectionName" "LEADER_ELECTION_NAME"
  "batchMaxDuration" "BATCH_MAX_DURATION"
  "batchIdleDuration" "BATCH_IDLE_DURATION"
  "preferencePolicy" "PREFERENCE_POLICY"
  "minValuesPolicy" "MIN_VALUES_POLICY"
  "packing" "PACKING"
  "packingBudget" "PACKING_BUDGET"
  "packingNodeCost" "PACKING_NODE_COST"
  "packingMinTypes" "PACKING_MIN_TYPES"
  "packingPriceSlack" "PACKING_PRICE_SLACK"
  "spotInterruptionCost" "SPOT_INTERRUPTION_COST"
  "rebalance" "REBALANCE"
  "rebalanceMoves" "REBALANCE_MOVES"
  "rebalancePayback" "REBALANCE_PAYBACK"
  "rebalancePodCost" "REBALANCE_POD_COST"
  "rebalanceCooldown" "REBALANCE_COOLDOWN"
  "ignoreDRARequests" "IGNORE_DRA_REQUESTS"
  "disableClusterStateObservability" "DISABLE_CLUSTER_STATE_OBSERVABILITY"
  "metricsDetail" "METRICS_DETAIL"
  "earlyBinding" "EARLY_BINDING"
  "legacyNodeRepair" "LEGACY_NODE_REPAIR"
  "decisionLog" "DECISION_LOG"
)) }}
{{- if .Values.notifications.config }}
- name: NOTIFICATIONS_CONFIG
  value: {{ printf "%s/notifications.yaml" (include "karpenter.notificationsFolder" .) | quote }}
{{- end }}
{{- with $settings.schedulerConfig }}
- name: SCHEDULER_CONFIG
  value: {{ kindIs "string" . | ternary . (toYaml .) | quote }}
{{- end }}
{{- with include "karpenter.gates" $settings.featureGates }}
- name: FEATURE_GATES
  value: {{ . | quote }}
{{- end }}
{{- if eq $provider "aws" }}
{{- if not $settings.clusterName }}
{{- fail "settings.clusterName is missing: the provider aws finds what belongs to a cluster by its name; set it, or settings.provider to another provider" }}
{{- end }}
{{- include "karpenter.variables" (dict "root" . "table" (dict
  "clusterName" "CLUSTER_NAME"
  "clusterEndpoint" "CLUSTER_ENDPOINT"
  "clusterCABundle" "CLUSTER_CA_BUNDLE"
  "isolatedVPC" "ISOLATED_VPC"
  "eksControlPlane" "EKS_CONTROL_PLANE"
  "vmMemoryOverheadPercent" "VM_MEMORY_OVERHEAD_PERCENT"
  "interruptionQueue" "INTERRUPTION_QUEUE"
  "enableZonalShift" "ENABLE_ZONAL_SHIFT"
  "awsCommitments" "AWS_COMMITMENTS"
  "reservedENIs" "RESERVED_ENIS"
  "disableDryRun" "DISABLE_DRY_RUN"
  "amiRefreshInterval" "AMI_REFRESH_INTERVAL"
  "subnetRefreshInterval" "SUBNET_REFRESH_INTERVAL"
)) }}
{{- with include "karpenter.gates" $settings.awsFeatureGates }}
- name: AWS_FEATURE_GATES
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
