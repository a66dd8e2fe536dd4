package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pod"
)

// answer is a decision in a form that does not depend on names and order.
type answer struct {
	Claims   []claim             `json:"claims"`
	Existing map[string][]string `json:"existing"`
	Failed   map[string]string   `json:"failed"`   // pod -> why it has no place
	Deferred []string            `json:"deferred"` // pods that wait for a reservation
	Method   string              `json:"method,omitempty"`
	Commands []command           `json:"commands,omitempty"`
}

type claim struct {
	Pool  string   `json:"pool"`
	Pods  []string `json:"pods"`
	Types []string `json:"types"`
	Zones []string `json:"zones"`
	Ways  []string `json:"ways"` // capacity types
}

type command struct {
	Decision     string   `json:"decision"`
	Nodes        []string `json:"nodes"`
	Replacements []claim  `json:"replacements"`
}

func decide(asked *problem) (*answer, error) {
	made, err := build(asked)
	if err != nil {
		return nil, err
	}
	if asked.Disrupt {
		return made.disrupt()
	}
	return made.provision()
}

func (w *world) provision() (*answer, error) {
	results, err := w.provisioner.Schedule(w.context)
	if err != nil {
		return nil, fmt.Errorf("scheduling: %w", err)
	}
	found := &answer{Claims: []claim{}, Existing: map[string][]string{}, Failed: map[string]string{}, Deferred: []string{}}
	for _, each := range results.NewNodeClaims {
		found.Claims = append(found.Claims, said(each))
	}
	slices.SortFunc(found.Claims, byText)
	for _, each := range results.ExistingNodes {
		if len(each.Pods) > 0 {
			found.Existing[each.Name()] = named(each.Pods)
		}
	}
	for failed, err := range results.PodErrors {
		if scheduling.IsReservedOfferingError(err) {
			found.Deferred = append(found.Deferred, key(failed))
		} else {
			found.Failed[key(failed)] = err.Error()
		}
	}
	slices.Sort(found.Deferred)
	return found, nil
}

// disrupt lets the methods look in their order, as the controller does; the first that finds
// something to do decides.
func (w *world) disrupt() (*answer, error) {
	queue := disruption.NewQueue(w.client, w.recorder, w.cluster, w.clock, w.provisioner)
	if err := w.countBuffers(); err != nil {
		return nil, err
	}
	found := &answer{Claims: []claim{}, Existing: map[string][]string{}, Failed: map[string]string{}, Deferred: []string{}}
	for _, method := range w.methods(queue) {
		commands, err := w.commandsOf(method, queue)
		if err != nil {
			return nil, fmt.Errorf("%T: %w", method, err)
		}
		for _, each := range commands {
			found.Commands = append(found.Commands, w.told(each))
		}
		if len(commands) > 0 {
			found.Method = strings.TrimPrefix(fmt.Sprintf("%T", method), "*disruption.")
			return found, nil
		}
	}
	return found, nil
}

func (w *world) methods(queue *disruption.Queue) []disruption.Method {
	c := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.provisioner, w.cloud, w.recorder, queue)
	unchecked := disruption.WithValidator(trusting{})
	methods := []disruption.Method{
		disruption.NewEmptiness(c, unchecked),
		disruption.NewStaticDrift(w.cluster, w.provisioner, w.cloud, w.recorder),
		disruption.NewDrift(w.client, w.cluster, w.provisioner, w.recorder, w.clock),
		disruption.NewMultiNodeConsolidation(c, unchecked),
		disruption.NewSingleNodeConsolidation(c, unchecked),
	}
	if w.options.FeatureGates.NodeRepair {
		methods = append([]disruption.Method{disruption.NewRepair(c)}, methods...)
	}
	return methods
}

func (w *world) commandsOf(method disruption.Method, queue *disruption.Queue) ([]disruption.Command, error) {
	candidates, totals, err := disruption.GetCandidatesWithTotals(w.context, w.cluster, w.client, w.recorder, w.clock, w.cloud,
		method.ShouldDisrupt, method.Class(), queue, w.cost)
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	if setter, ok := method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(w.context, w.cluster, w.clock, w.client, w.cloud, w.recorder, method.Reason())
	if err != nil {
		return nil, err
	}
	commands, err := method.ComputeCommands(w.context, budgets, candidates...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(commands, func(c disruption.Command) bool {
		return c.Decision() == disruption.NoOpDecision
	}), nil
}

// countBuffers notes where the spare room that buffers ask for is, as a pass of the provisioner does.
func (w *world) countBuffers() error {
	if !w.options.FeatureGates.CapacityBuffer {
		return nil
	}
	results, err := w.provisioner.Schedule(w.context)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, node := range results.ExistingNodes {
		for _, each := range node.Pods {
			if pod.IsProvisionable(each) && strings.HasPrefix(each.Name, "capacity-buffer") {
				counts[node.ProviderID()]++
			}
		}
	}
	w.cluster.UpdateBufferPodCounts(counts)
	return nil
}

// trusting takes every command as it is: time stands still, so looking again finds the same.
type trusting struct{}

func (trusting) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

func (w *world) told(c disruption.Command) command {
	made := command{Decision: string(c.Decision()), Nodes: []string{}, Replacements: []claim{}}
	for _, each := range c.Candidates {
		made.Nodes = append(made.Nodes, each.Name())
	}
	slices.Sort(made.Nodes)
	for _, each := range c.Replacements {
		made.Replacements = append(made.Replacements, said(each.NodeClaim))
	}
	slices.SortFunc(made.Replacements, byText)
	return made
}

// said tells a claim with the types that it could be launched as.
func said(c *scheduling.NodeClaim) claim {
	types, zones, ways := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, each := range c.InstanceTypeOptions {
		for _, o := range each.Offerings {
			if o.Launchable() && c.Requirements.IsCompatible(o.Requirements, requirements.AllowUndefinedWellKnownLabels) {
				types.Insert(each.Name)
				zones.Insert(o.Zone())
				ways.Insert(o.CapacityType())
			}
		}
	}
	return claim{Pool: c.NodePoolName, Pods: named(c.Pods), Types: sets.List(types), Zones: sets.List(zones), Ways: sets.List(ways)}
}

func named(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, each := range pods {
		names = append(names, key(each))
	}
	slices.Sort(names)
	return names
}

func key(p *corev1.Pod) string {
	return p.Namespace + "/" + p.Name
}

func byText(a, b claim) int {
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
