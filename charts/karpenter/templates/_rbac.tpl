{{/* A ClusterRole and its binding to the controller: `root`, `suffix` of the name, and `rules` as text. */}}
{{- define "karpenter.clusterRole" -}}
{{- $name := printf "%s%s" (include "karpenter.fullname" .root) .suffix }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  {{- include "karpenter.metadata" .root | nindent 2 }}
rules:
{{- .rules | trim | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  {{- include "karpenter.metadata" .root | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
{{- include "karpenter.subjects" .root | nindent 0 }}
{{- end }}

{{/* The same in one namespace: `namespace` besides. */}}
{{- define "karpenter.role" -}}
{{- $name := printf "%s%s" (include "karpenter.fullname" .root) .suffix }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  {{- include "karpenter.metadata" .root | nindent 2 }}
rules:
{{- .rules | trim | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  {{- include "karpenter.metadata" .root | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
{{- include "karpenter.subjects" .root | nindent 0 }}
{{- end }}

{{- define "karpenter.subjects" -}}
- kind: ServiceAccount
  name: {{ include "karpenter.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* A ClusterRole that admins of the cluster have, by aggregation. */}}
{{- define "karpenter.adminRole" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "karpenter.fullname" .root }}{{ .suffix }}
  labels:
    rbac.authorization.k8s.io/aggregate-to-admin: "true"
    {{- include "karpenter.labels" .root | nindent 4 }}
  {{- with .root.Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
{{- .rules | trim | nindent 0 }}
{{- end }}
