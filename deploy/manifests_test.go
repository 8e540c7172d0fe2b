package deploy_test

import (
	"slices"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
)

// A deployed is what deployment.yaml holds.
type deployed struct {
	apps.Deployment
	service core.Service
}

func loadDeployment(t *testing.T) *deployed {
	t.Helper()
	parts := documents(t, "deployment.yaml")
	if len(parts) != 2 {
		t.Fatalf("deployment.yaml holds %d documents, want a Deployment and a Service", len(parts))
	}
	d := &deployed{}
	if err := decode(parts[0], &d.Deployment); err != nil {
		t.Fatalf("Deployment: %v", err)
	}
	if err := decode(parts[1], &d.service); err != nil {
		t.Fatalf("Service: %v", err)
	}
	return d
}

func (d *deployed) pod() *core.PodSpec { return &d.Spec.Template.Spec }

func loadAutoscaler(t *testing.T) *autoscaling.HorizontalPodAutoscaler {
	t.Helper()
	return load[autoscaling.HorizontalPodAutoscaler](t, "hpa.yaml")
}

// scaling returns the target of arrivals per pod and the CPU in per cent of the request.
func scaling(t *testing.T, h *autoscaling.HorizontalPodAutoscaler) (perPod float64, cpu int32) {
	t.Helper()
	if len(h.Spec.Metrics) != 2 {
		t.Fatalf("hpa.yaml has %d metrics, want queries_per_second and cpu", len(h.Spec.Metrics))
	}
	pods, resource := h.Spec.Metrics[0].Pods, h.Spec.Metrics[1].Resource
	if pods == nil || resource == nil || pods.Target.AverageValue == nil || resource.Target.AverageUtilization == nil {
		t.Fatalf("hpa.yaml: metrics are %+v", h.Spec.Metrics)
	}
	return pods.Target.AverageValue.AsApproximateFloat64(), *resource.Target.AverageUtilization
}

func TestAutoscalerScalesOnArrivalsAndCPU(t *testing.T) {
	h := loadAutoscaler(t)
	if h.APIVersion != "autoscaling/v2" || h.Kind != "HorizontalPodAutoscaler" {
		t.Errorf("it is a %s %s", h.APIVersion, h.Kind)
	}
	perPod, cpu := scaling(t, h)
	pods, resource := h.Spec.Metrics[0], h.Spec.Metrics[1]
	if pods.Type != autoscaling.PodsMetricSourceType || pods.Pods.Target.Type != autoscaling.AverageValueMetricType ||
		pods.Pods.Metric.Name != "queries_per_second" || perPod != 13 {
		t.Errorf("arrivals: %+v", pods)
	}
	if resource.Type != autoscaling.ResourceMetricSourceType || resource.Resource.Target.Type != autoscaling.UtilizationMetricType ||
		resource.Resource.Name != core.ResourceCPU || cpu != 30 {
		t.Errorf("cpu: %+v", resource)
	}
	if h.Spec.MinReplicas == nil || *h.Spec.MinReplicas != 40 || h.Spec.MaxReplicas != 60 {
		t.Errorf("replicas from %v to %d, want 40 to 60", h.Spec.MinReplicas, h.Spec.MaxReplicas)
	}
	b := h.Spec.Behavior
	if b == nil || b.ScaleUp == nil || b.ScaleDown == nil || b.ScaleDown.StabilizationWindowSeconds == nil ||
		*b.ScaleDown.StabilizationWindowSeconds != 300 {
		t.Errorf("behaviour: %+v", b)
	}
}

func TestDeploymentLeavesReplicasToTheAutoscaler(t *testing.T) {
	d := loadDeployment(t)
	if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || d.service.APIVersion != "v1" || d.service.Kind != "Service" {
		t.Errorf("it is a %s %s and a %s %s", d.APIVersion, d.Kind, d.service.APIVersion, d.service.Kind)
	}
	if d.Spec.Replicas != nil {
		t.Errorf("spec.replicas is %d: each apply would undo the autoscaler", *d.Spec.Replicas)
	}
	target := loadAutoscaler(t).Spec.ScaleTargetRef
	if target.APIVersion != d.APIVersion || target.Kind != d.Kind || target.Name != d.Name {
		t.Errorf("hpa.yaml scales %+v", target)
	}
}

func TestEveryContainerRequestsCPU(t *testing.T) {
	for _, c := range append(loadDeployment(t).pod().Containers, loadDeployment(t).pod().InitContainers...) {
		if c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("container %s requests no CPU: a utilisation in per cent of the request is undefined for the whole pod", c.Name)
		}
		for _, e := range c.Env {
			if e.Name == "GOMAXPROCS" {
				t.Errorf("container %s sets GOMAXPROCS", c.Name)
			}
		}
	}
}

func TestServiceContainerHasAReadinessProbe(t *testing.T) {
	pod := loadDeployment(t).pod()
	probe := pod.Containers[0].ReadinessProbe
	if probe == nil || probe.HTTPGet == nil {
		t.Fatal("no readiness probe: a draining pod could not say so")
	}
	if !hasPort(pod.Containers[0], probe.HTTPGet.Port.String()) {
		t.Errorf("the probe asks port %s, which the container does not name", probe.HTTPGet.Port.String())
	}
}

func hasPort(c core.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == name })
}

// The stages of a drain as initproc.Serve has them by default, and what its init waits for orphans.
const drainStages = (5 + 20 + 2 + 2) * time.Second

func TestGraceStandsTwiceAndCoversTheDrain(t *testing.T) {
	pod := loadDeployment(t).pod()
	if pod.TerminationGracePeriodSeconds == nil {
		t.Fatal("no terminationGracePeriodSeconds")
	}
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if grace != 30*time.Second || grace < drainStages {
		t.Errorf("grace is %v, want 30s, and %v for the drain at least", grace, drainStages)
	}
	var told string
	for _, e := range pod.Containers[0].Env {
		if e.Name == "GRACE_PERIOD" {
			told = e.Value
		}
	}
	if d, err := time.ParseDuration(told); err != nil || d != grace {
		t.Errorf("the process is told %q, the pod has %v", told, grace)
	}
}

func TestNamesWithTwoDotsSkipTheSearchList(t *testing.T) {
	dns := loadDeployment(t).pod().DNSConfig
	if dns == nil || len(dns.Options) != 1 || dns.Options[0].Name != "ndots" || dns.Options[0].Value == nil || *dns.Options[0].Value != "2" {
		t.Errorf("dnsConfig is %+v", dns)
	}
}

// scrapeInterval is that of servicemonitor.yaml.
func scrapeInterval(t *testing.T) time.Duration {
	t.Helper()
	m := load[monitoring.ServiceMonitor](t, "servicemonitor.yaml")
	if len(m.Spec.Endpoints) != 1 {
		t.Fatalf("servicemonitor.yaml has %d endpoints", len(m.Spec.Endpoints))
	}
	interval, err := time.ParseDuration(string(m.Spec.Endpoints[0].Interval))
	if err != nil {
		t.Fatal(err)
	}
	return interval
}

func TestServiceMonitorFindsTheMetricsPort(t *testing.T) {
	m, d := load[monitoring.ServiceMonitor](t, "servicemonitor.yaml"), loadDeployment(t)
	if m.APIVersion != "monitoring.coreos.com/v1" || m.Kind != "ServiceMonitor" {
		t.Errorf("it is a %s %s", m.APIVersion, m.Kind)
	}
	if got := scrapeInterval(t); got != 15*time.Second {
		t.Errorf("interval %v", got)
	}
	for key, value := range m.Spec.Selector.MatchLabels {
		if d.service.Labels[key] != value {
			t.Errorf("it selects %s=%s, which the Service has not", key, value)
		}
	}
	port, path := m.Spec.Endpoints[0].Port, m.Spec.Endpoints[0].Path
	i := slices.IndexFunc(d.service.Spec.Ports, func(p core.ServicePort) bool { return p.Name == port })
	if i < 0 || !hasPort(d.pod().Containers[0], d.service.Spec.Ports[i].TargetPort.String()) {
		t.Errorf("port %q leads to no port of the container", port)
	}
	annotations := d.Spec.Template.Annotations
	if annotations["prometheus.io/scrape"] != "true" || annotations["prometheus.io/port"] != "9090" || annotations["prometheus.io/path"] != path {
		t.Errorf("annotations on the pod template: %v", annotations)
	}
}

func TestServiceSelectsThePods(t *testing.T) {
	d := loadDeployment(t)
	for _, selector := range []map[string]string{d.service.Spec.Selector, d.Spec.Selector.MatchLabels} {
		for key, value := range selector {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("selector %s=%s matches no pod", key, value)
			}
		}
	}
}
