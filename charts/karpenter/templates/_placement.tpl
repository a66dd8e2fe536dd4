{{/* Where the pods go: terms without a selector get that of the pods. */}}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) }}
{{- $otherwise := eq (include "karpenter.provider" .) "aws" | ternary "DoNotSchedule" "ScheduleAnyway" }}
{{- $constraints := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $constraint := merge (deepCopy .) (dict "whenUnsatisfiable" $otherwise) }}
{{- if not .labelSelector }}
{{- $_ := set $constraint "labelSelector" $selector }}
{{- end }}
{{- $constraints = append $constraints $constraint }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{- define "karpenter.affinity" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- with index $affinity $kind }}
{{- range .requiredDuringSchedulingIgnoredDuringExecution }}
{{- if not .labelSelector }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- range .preferredDuringSchedulingIgnoredDuringExecution }}
{{- if not .podAffinityTerm.labelSelector }}
{{- $_ := set .podAffinityTerm "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}
