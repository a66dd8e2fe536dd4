{{/*
One lease is what keeps two Karpenters from acting at once. While the cluster has another one, this release must use its
namespace and its lease. `helm template` sees no cluster, and so refuses nothing.
*/}}
{{- define "karpenter.refuseSecondLease" -}}
{{- if not .Values.migration.separateLease }}
{{- $own := include "karpenter.fullname" . }}
{{- $lease := .Values.settings.leaderElectionName }}
{{- range $other := (lookup "apps/v1" "Deployment" "" "").items }}
{{- $containers := $other.spec.template.spec.containers }}
{{- $is_karpenter := eq "karpenter" (dig "labels" "app.kubernetes.io/name" "" $other.metadata) }}
{{- $their_lease := "karpenter-leader-election" }}
{{- range $container := $containers }}
{{- if regexMatch "(^|/)karpenter/controller([:@]|$)" (default "" $container.image) }}
{{- $is_karpenter = true }}
{{- end }}
{{- range $variable := $container.env }}
{{- if eq $variable.name "LEADER_ELECTION_NAME" }}
{{- $their_lease = default $their_lease $variable.value }}
{{- end }}
{{- end }}
{{- end }}
{{- $where := $other.metadata.namespace }}
{{- if and $is_karpenter (not (and (eq $other.metadata.name $own) (eq $where $.Release.Namespace))) }}
{{- if or (ne $where $.Release.Namespace) (ne $their_lease $lease) }}
{{- fail (printf "the cluster already has a Karpenter, the Deployment %s/%s with the lease %s, and both would act at once: install into the namespace %s with settings.leaderElectionName=%s, remove that Deployment, or set migration.separateLease=true if their pools are surely apart" $where $other.metadata.name $their_lease $where $their_lease) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
