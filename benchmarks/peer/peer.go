// Package peer names the published package whose own benchmark is the yardstick. It does nothing:
// the import makes "go mod tidy" write down everything that building that benchmark needs.
package peer

import _ "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
