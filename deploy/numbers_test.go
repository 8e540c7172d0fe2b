package deploy_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// tolerance is the deviation from the target that the autoscaler leaves alone, by default of kube-controller-manager.
const tolerance = 0.1

func TestDashboardDrawsTheAutoscalersNumbers(t *testing.T) {
	h, d := loadAutoscaler(t), loadDashboard(t)
	target, _ := scaling(t, h)
	acts := math.Round(target*(1+tolerance)*100) / 100
	limits := []float64{float64(*h.Spec.MinReplicas), float64(h.Spec.MaxReplicas)}
	for title, want := range map[string][]float64{
		"queries_per_second":          {target, acts},
		"Pods: asked for and counted": limits,
	} {
		p := d.panel(t, title)
		var got []float64
		for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
			if step.Value != nil {
				got = append(got, *step.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("panel %q draws %v, want %v", title, got, want)
		}
		for _, n := range want {
			if !strings.Contains(p.Description, fmt.Sprint(n)) {
				t.Errorf("panel %q does not speak of %v", title, n)
			}
		}
	}
	divided := fmt.Sprintf("/ %v)", target)
	if expr := d.panel(t, "Pods: asked for and counted").Targets[0].Expr; !strings.HasSuffix(expr, divided) {
		t.Errorf("pods asked for: %s, want a division by %v", expr, target)
	}
	if v := d.panel(t, "Arrivals per pod").FieldConfig.Defaults.Thresholds.Steps[1].Value; *v != acts {
		t.Errorf("arrivals per pod turn orange at %v, want %v", *v, acts)
	}
}

func TestEverythingLivesInOneNamespace(t *testing.T) {
	d := loadDeployment(t)
	for file, namespace := range map[string]string{
		"hpa.yaml":            loadAutoscaler(t).Namespace,
		"scaledobject.yaml":   loadScaledObject(t).Metadata.Namespace,
		"servicemonitor.yaml": load[monitoring.ServiceMonitor](t, "servicemonitor.yaml").Namespace,
		"the Service":         d.service.Namespace,
	} {
		if namespace != d.Namespace || namespace == "" {
			t.Errorf("%s is in namespace %q, the Deployment in %q", file, namespace, d.Namespace)
		}
	}
	query := loadScaledObject(t).Spec.Triggers[0].Metadata["query"]
	if pods := fmt.Sprintf(`{namespace=%q,pod=~"%s-.+"}`, d.Namespace, d.Name); !strings.Contains(query, pods) {
		t.Errorf("KEDA asks %s, want the pods %s", query, pods)
	}
}

func TestScrapeConfigurationsByAnnotationFindTheSamePort(t *testing.T) {
	d := loadDeployment(t)
	for _, p := range d.pod().Containers[0].Ports {
		if p.Name == "metrics" && fmt.Sprint(p.ContainerPort) != d.Spec.Template.Annotations["prometheus.io/port"] {
			t.Errorf("annotation says %s, the port is %d", d.Spec.Template.Annotations["prometheus.io/port"], p.ContainerPort)
		}
	}
}
