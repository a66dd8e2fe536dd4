{{/* Where pods may connect to. */}}
{{- define "karpenter.egress" -}}
- ports:  # DNS
  - port: 53
    protocol: UDP
  - port: 53
    protocol: TCP
- ports:  # the API server, and what the cloud serves over HTTPS
  - port: 443
    protocol: TCP
  - port: 6443
    protocol: TCP
{{- if eq (include "karpenter.provider" .) "aws" }}
- to:  # credentials and region: instance metadata, and EKS Pod Identity
  - ipBlock:
      cidr: 169.254.169.254/32
  - ipBlock:
      cidr: 169.254.170.23/32
  ports:
  - port: 80
    protocol: TCP
{{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
