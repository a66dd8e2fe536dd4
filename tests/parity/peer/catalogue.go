package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

// instanceType is a machine one could have, as the generator writes it.
type instanceType struct {
	Name         string              `json:"name"`
	Labels       map[string][]string `json:"labels"` // a label without values does not exist on it
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     corev1.ResourceList `json:"overhead"`
	VolumeLimits map[string]int      `json:"volumeLimits"`
	Offerings    []offering          `json:"offerings"`
}

type offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
	Available    bool    `json:"available"`
	Reservation  string  `json:"reservation"`
	Left         int     `json:"left"` // machines that the reservation has room for
}

func (t instanceType) made() *cloudprovider.InstanceType {
	requirements := scheduling.NewRequirements(
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name))
	for key, values := range t.Labels {
		if len(values) == 0 {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		} else {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...))
		}
	}
	zones, ways, reservations := sets.New[string](), sets.New[string](), sets.New[string]()
	var offerings cloudprovider.Offerings
	for _, each := range t.Offerings {
		offerings = append(offerings, each.made())
		zones.Insert(each.Zone)
		ways.Insert(each.CapacityType)
		if each.Reservation != "" {
			reservations.Insert(each.Reservation)
		}
	}
	requirements.Add(
		scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, sets.List(zones)...),
		scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, sets.List(ways)...),
		scheduling.NewRequirement(v1alpha1.LabelReservationID, corev1.NodeSelectorOpIn, sets.List(reservations)...),
	)
	return &cloudprovider.InstanceType{
		Name:                   t.Name,
		Requirements:           requirements,
		Offerings:              offerings,
		Capacity:               t.Capacity,
		Overhead:               &cloudprovider.InstanceTypeOverhead{KubeReserved: t.Overhead},
		VolumeAttachmentLimits: t.VolumeLimits,
	}
}

func (o offering) made() *cloudprovider.Offering {
	requirements := scheduling.NewLabelRequirements(map[string]string{
		corev1.LabelTopologyZone: o.Zone,
		v1.CapacityTypeLabelKey:  o.CapacityType,
	})
	if o.Reservation == "" {
		requirements.Add(scheduling.NewRequirement(v1alpha1.LabelReservationID, corev1.NodeSelectorOpDoesNotExist))
	} else {
		requirements.Add(scheduling.NewRequirement(v1alpha1.LabelReservationID, corev1.NodeSelectorOpIn, o.Reservation))
	}
	return &cloudprovider.Offering{
		Requirements:        requirements,
		Price:               o.Price,
		Available:           o.Available,
		ReservationCapacity: o.Left,
	}
}
