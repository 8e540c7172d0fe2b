package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/kedacore/keda/v2/version" // keeps KEDA's module, whose published schemas are read, in go.mod
	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// A scaledObject is what the tests read of KEDA's resource. Its Go type is not used: the package compiles half of
// Kubernetes' client in with it. The resource's schema, which is what the API server judges by, is used instead.
type scaledObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef  autoscaling.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicaCount int32                                   `json:"minReplicaCount"`
		MaxReplicaCount int32                                   `json:"maxReplicaCount"`
		Fallback        *struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Triggers []trigger `json:"triggers"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
	} `json:"spec"`
}

type trigger struct {
	Type       string                       `json:"type"`
	MetricType autoscaling.MetricTargetType `json:"metricType"`
	Metadata   map[string]string            `json:"metadata"`
}

func loadScaledObject(t *testing.T) *scaledObject {
	t.Helper()
	so := &scaledObject{}
	if err := yaml.Unmarshal([]byte(read(t, "scaledobject.yaml")), so); err != nil {
		t.Fatal(err)
	}
	if len(so.Spec.Triggers) != 2 {
		t.Fatalf("scaledobject.yaml has %d triggers, want prometheus and cpu", len(so.Spec.Triggers))
	}
	return so
}

// kedaFile decodes a file of KEDA's module.
func kedaFile(t *testing.T, into any, name ...string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	if err != nil {
		t.Fatalf("where is KEDA's module? %v", err)
	}
	text, err := os.ReadFile(filepath.Join(append([]string{strings.TrimSpace(string(dir))}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func scaledObjectSchema(t *testing.T) *schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema *schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	kedaFile(t, &crd, "config", "crd", "bases", "keda.sh_scaledobjects.yaml")
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1alpha1" {
		t.Fatalf("KEDA has versions %+v of the resource", crd.Spec.Versions)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func TestScaledObjectFitsTheSchemaOfKEDA(t *testing.T) {
	s := scaledObjectSchema(t)
	text := read(t, "scaledobject.yaml")
	for _, wrong := range s.checkText(t, text) {
		t.Error(wrong)
	}
	for from, to := range map[string]string{
		"minReplicaCount: 40":               "minReplicas: 40",
		"maxReplicaCount: 60":               "maxReplicaCount: sixty",
		"failureThreshold: 3":               "failureThreshold: -1",
		"    replicas: 50\n":                "",
		"behavior: currentReplicasIfHigher": "behavior: currentReplicasIfHighest",
		"- type: cpu":                       "- kind: cpu",
		`threshold: "13"`:                   "threshold: 13",
		"selectPolicy: Max\n":               "selectPolicies: Max\n",
	} {
		if broken := strings.ReplaceAll(text, from, to); broken == text || len(s.checkText(t, broken)) == 0 {
			t.Errorf("%q instead of %q passes the schema", to, from)
		}
	}
}

func TestTriggersUseKnownParameters(t *testing.T) {
	var known struct {
		Scalers []struct {
			Type       string
			Parameters []struct{ Name string }
		}
	}
	kedaFile(t, &known, "schema", "generated", "scalers-schema.yaml")
	parameters := map[string][]string{}
	for _, s := range known.Scalers {
		for _, p := range s.Parameters {
			parameters[s.Type] = append(parameters[s.Type], p.Name)
		}
	}
	for _, tr := range loadScaledObject(t).Spec.Triggers {
		if len(parameters[tr.Type]) == 0 {
			t.Errorf("KEDA has no trigger %q", tr.Type)
		}
		for name := range tr.Metadata { // KEDA ignores what it does not know, and takes the default
			if !slices.Contains(parameters[tr.Type], name) {
				t.Errorf("trigger %s has no parameter %q", tr.Type, name)
			}
		}
	}
}

// In an outage of Prometheus the service stays as large as it is: an empty answer is no 0.
func TestUnknownIsNotZero_keda3065(t *testing.T) {
	so := loadScaledObject(t)
	if v := so.Spec.Triggers[0].Metadata["ignoreNullValues"]; v != "false" {
		t.Errorf("ignoreNullValues is %q: an empty answer would count as 0 and scale to the minimum", v)
	}
	f := so.Spec.Fallback
	if f == nil || f.Replicas != 50 || f.FailureThreshold < 1 || f.Behavior != "currentReplicasIfHigher" {
		t.Fatalf("fallback: %+v", f)
	}
	// KEDA refuses a fallback when no trigger has an average value: cpu alone cannot have one.
	if tr := so.Spec.Triggers[0]; tr.Type == "cpu" || tr.MetricType != autoscaling.AverageValueMetricType {
		t.Errorf("trigger: %+v", tr)
	}
	if f.Replicas < so.Spec.MinReplicaCount || f.Replicas > so.Spec.MaxReplicaCount {
		t.Errorf("fallback to %d, outside of %d to %d", f.Replicas, so.Spec.MinReplicaCount, so.Spec.MaxReplicaCount)
	}
}

func TestScaledObjectScalesAsTheAutoscalerDoes(t *testing.T) {
	so, h := loadScaledObject(t), loadAutoscaler(t)
	if so.APIVersion != "keda.sh/v1alpha1" || so.Kind != "ScaledObject" {
		t.Errorf("it is a %s %s", so.APIVersion, so.Kind)
	}
	if so.Spec.ScaleTargetRef != h.Spec.ScaleTargetRef {
		t.Errorf("it scales %+v", so.Spec.ScaleTargetRef)
	}
	if so.Spec.MinReplicaCount != *h.Spec.MinReplicas || so.Spec.MaxReplicaCount != h.Spec.MaxReplicas {
		t.Errorf("replicas from %d to %d", so.Spec.MinReplicaCount, so.Spec.MaxReplicaCount)
	}
	if got := so.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior; !reflect.DeepEqual(got, h.Spec.Behavior) {
		t.Errorf("behaviour %+v, hpa.yaml has %+v", got, h.Spec.Behavior)
	}
	arrivals, cpu := so.Spec.Triggers[0], so.Spec.Triggers[1]
	if arrivals.Type != "prometheus" || arrivals.Metadata["threshold"] != h.Spec.Metrics[0].Pods.Target.AverageValue.String() {
		t.Errorf("arrivals: %+v", arrivals)
	}
	if cpu.Type != "cpu" || cpu.MetricType != autoscaling.UtilizationMetricType || cpu.Metadata["value"] != "30" {
		t.Errorf("cpu: %+v", cpu)
	}
}
