package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/capacitybuffer"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
	"sigs.k8s.io/karpenter/pkg/test"
)

// problem is everything a decision depends on.
type problem struct {
	Now           time.Time                 `json:"now"`
	Disrupt       bool                      `json:"disrupt"`
	Objects       []json.RawMessage         `json:"objects"`
	InstanceTypes map[string][]instanceType `json:"instanceTypes"` // by pool; "" is for all others
	Marked        []string                  `json:"marked"`        // claims that a command removes already
	Nominated     []string                  `json:"nominated"`     // nodes that pods are expected on
	Options       choices                   `json:"options"`
	Policies      []repairPolicy            `json:"repairPolicies"`
}

type choices struct {
	Gates            map[string]bool `json:"gates"`
	IgnorePreference bool            `json:"ignorePreferences"`
	BestEffort       bool            `json:"bestEffortMinValues"`
	SchedulerConfig  string          `json:"schedulerConfig"`
}

type repairPolicy struct {
	Type       string `json:"type"`
	Status     string `json:"status"`
	Reason     string `json:"reasonRegex"`
	Toleration string `json:"toleration"`
	Grace      string `json:"gracePeriod"`
	Priority   int    `json:"priority"`
	Action     string `json:"action"`
}

// world is a cluster in memory with Karpenter's view of it.
type world struct {
	context     context.Context
	client      client.Client
	clock       *clock.FakeClock
	cloud       cloudprovider.CloudProvider
	recorder    *test.EventRecorder
	cluster     *state.Cluster
	cost        *cost.ClusterCost
	provisioner *provisioning.Provisioner
	options     *options.Options
}

func build(asked *problem) (*world, error) {
	made := &world{clock: clock.NewFakeClock(asked.Now), recorder: test.NewEventRecorder()}
	chosen, err := asked.Options.resolved()
	if err != nil {
		return nil, err
	}
	made.options = chosen
	made.context = options.ToContext(log.IntoContext(context.Background(), logr.Discard()), chosen)
	objects, err := decoded(asked.Objects)
	if err != nil {
		return nil, err
	}
	made.client = clientOf(objects)
	if err := made.openShop(asked); err != nil {
		return nil, err
	}
	matcher, err := health.NewRepairPolicyMatcher(made.context, made.cloud)
	if err != nil {
		return nil, err
	}
	made.cluster = state.NewCluster(made.clock, made.client, made.cloud, state.WithRepairPolicyMatcher(matcher))
	if err := made.applyOverlays(); err != nil {
		return nil, err
	}
	made.cost = cost.NewClusterCost(made.context, made.cloud, made.client)
	buffers := virtualpods.NewVirtualPodCache(made.client)
	made.provisioner = provisioning.NewProvisioner(made.client, made.recorder, made.cloud, made.cluster, made.clock,
		deviceallocation.NewController(made.client), buffers)
	if err := made.learn(objects, asked); err != nil {
		return nil, err
	}
	return made, made.resolveBuffers(objects, buffers)
}

func (c choices) resolved() (*options.Options, error) {
	fields := test.OptionsFields{}
	threads := int64(1000)
	fields.CPURequests = &threads
	if c.IgnorePreference {
		ignore := options.PreferencePolicyIgnore
		fields.PreferencePolicy = &ignore
	}
	if c.BestEffort {
		effort := options.MinValuesPolicyBestEffort
		fields.MinValuesPolicy = &effort
	}
	config, err := options.ParseSchedulerConfiguration(c.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	fields.SchedulerConfig = config
	gates := map[string]**bool{
		"NodeRepair":              &fields.FeatureGates.NodeRepair,
		"ReservedCapacity":        &fields.FeatureGates.ReservedCapacity,
		"SpotToSpotConsolidation": &fields.FeatureGates.SpotToSpotConsolidation,
		"NodeOverlay":             &fields.FeatureGates.NodeOverlay,
		"StaticCapacity":          &fields.FeatureGates.StaticCapacity,
		"CapacityBuffer":          &fields.FeatureGates.CapacityBuffer,
		"TerminateFirstDrift":     &fields.FeatureGates.TerminateFirstDrift,
		"TerminateFirstRepair":    &fields.FeatureGates.TerminateFirstRepair,
	}
	for name, open := range c.Gates {
		gate, ok := gates[name]
		if !ok {
			return nil, fmt.Errorf("no such feature gate: %s", name)
		}
		*gate = &open
	}
	return test.Options(fields), nil
}

func decoded(texts []json.RawMessage) ([]client.Object, error) {
	decoder := scheme.Codecs.UniversalDeserializer()
	var objects []client.Object
	for _, text := range texts {
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decoding %.200s: %w", text, err)
		}
		objects = append(objects, object.(client.Object))
	}
	return objects, nil
}

func clientOf(objects []client.Object) client.Client {
	return fakeclient.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&v1.NodeClaim{}, &v1.NodePool{}, &v1alpha1.NodeOverlay{}, &autoscaling.CapacityBuffer{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string {
			return []string{o.(*corev1.Node).Spec.ProviderID}
		}).
		WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
		}).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
			return []string{o.(*v1.NodeClaim).Status.ProviderID}
		}).
		WithIndex(&v1.NodeClaim{}, "spec.nodeClassRef.group", func(o client.Object) []string {
			return []string{o.(*v1.NodeClaim).Spec.NodeClassRef.Group}
		}).
		WithIndex(&v1.NodeClaim{}, "spec.nodeClassRef.kind", func(o client.Object) []string {
			return []string{o.(*v1.NodeClaim).Spec.NodeClassRef.Kind}
		}).
		WithIndex(&v1.NodePool{}, "spec.template.spec.nodeClassRef.group", func(o client.Object) []string {
			return []string{o.(*v1.NodePool).Spec.Template.Spec.NodeClassRef.Group}
		}).
		WithIndex(&v1.NodePool{}, "spec.template.spec.nodeClassRef.kind", func(o client.Object) []string {
			return []string{o.(*v1.NodePool).Spec.Template.Spec.NodeClassRef.Kind}
		}).
		Build()
}

// openShop makes the cloud that sells the instance types of the problem.
func (w *world) openShop(asked *problem) error {
	cloud := fake.NewCloudProvider()
	cloud.Reset()
	cloud.InstanceTypes = []*cloudprovider.InstanceType{}
	for pool, listed := range asked.InstanceTypes {
		types := make([]*cloudprovider.InstanceType, 0, len(listed))
		for _, each := range listed {
			types = append(types, each.made())
		}
		if pool == "" {
			cloud.InstanceTypes = types
		} else {
			cloud.InstanceTypesForNodePool[pool] = types
		}
	}
	cloud.RepairPolicy = nil
	for _, each := range asked.Policies {
		policy, err := each.made()
		if err != nil {
			return err
		}
		cloud.RepairPolicy = append(cloud.RepairPolicy, policy)
	}
	w.cloud = cloud
	return nil
}

func (r repairPolicy) made() (cloudprovider.RepairPolicy, error) {
	toleration, err := time.ParseDuration(r.Toleration)
	if err != nil {
		return cloudprovider.RepairPolicy{}, err
	}
	policy := cloudprovider.RepairPolicy{
		ConditionType:      corev1.NodeConditionType(r.Type),
		ConditionStatus:    corev1.ConditionStatus(r.Status),
		ReasonRegex:        r.Reason,
		TolerationDuration: toleration,
		Priority:           r.Priority,
		Action:             cloudprovider.RepairAction(r.Action),
	}
	if r.Grace != "" {
		grace, err := time.ParseDuration(r.Grace)
		if err != nil {
			return cloudprovider.RepairPolicy{}, err
		}
		policy.TerminationGracePeriod = &grace
	}
	return policy, nil
}

func (w *world) applyOverlays() error {
	if !w.options.FeatureGates.NodeOverlay {
		return nil
	}
	store := nodeoverlay.NewInstanceTypeStore()
	controller := nodeoverlay.NewController(w.clock, w.client, w.cloud, store, w.cluster)
	if _, err := controller.Reconcile(w.context, reconcile.Request{}); err != nil {
		return fmt.Errorf("evaluating overlays: %w", err)
	}
	w.cloud = overlay.Decorate(w.cloud, w.client, store)
	return nil
}

// learn tells the cluster state what informers would have told it.
func (w *world) learn(objects []client.Object, asked *problem) error {
	providers := map[string]string{}
	for _, object := range objects {
		if claim, ok := object.(*v1.NodeClaim); ok {
			w.cluster.UpdateNodeClaim(claim)
			providers[claim.Name] = claim.Status.ProviderID
			if err := w.cost.UpdateNodeClaim(w.context, claim); err != nil {
				return err
			}
		}
	}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			providers[node.Name] = node.Spec.ProviderID
			if err := w.cluster.UpdateNode(w.context, node); err != nil {
				return err
			}
		}
	}
	for _, object := range objects {
		switch known := object.(type) {
		case *corev1.Pod:
			if err := w.cluster.UpdatePod(w.context, known); err != nil {
				return err
			}
		case *appsv1.DaemonSet:
			if err := w.cluster.UpdateDaemonSet(w.context, known); err != nil {
				return err
			}
		}
	}
	for _, name := range asked.Marked {
		w.cluster.MarkForDeletion(providers[name])
	}
	for _, name := range asked.Nominated {
		w.cluster.NominateNodeForPod(w.context, providers[name])
	}
	return nil
}

func (w *world) resolveBuffers(objects []client.Object, cache *virtualpods.Cache) error {
	if !w.options.FeatureGates.CapacityBuffer {
		return nil
	}
	controller := capacitybuffer.NewController(w.client, w.provisioner, cache)
	for _, object := range objects {
		if _, ok := object.(*autoscaling.CapacityBuffer); !ok {
			continue
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		if _, err := controller.Reconcile(w.context, reconcile.Request{NamespacedName: key}); err != nil {
			return fmt.Errorf("resolving buffer %s: %w", key, err)
		}
	}
	return nil
}
