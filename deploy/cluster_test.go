package deploy_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestClusterTakesTheManifests asks the cluster that kubectl knows, if any, and changes nothing there.
func TestClusterTakesTheManifests(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("no kubectl: the manifests were decoded, no cluster has judged them")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, kubectl, "version", "--request-timeout=5s").CombinedOutput(); err != nil {
		t.Skipf("no cluster answers: %v\n%s", err, out)
	}
	for file, resource := range map[string]string{
		"deployment.yaml":     "deployments.v1.apps",
		"hpa.yaml":            "horizontalpodautoscalers.v2.autoscaling",
		"scaledobject.yaml":   "scaledobjects.v1alpha1.keda.sh",
		"servicemonitor.yaml": "servicemonitors.v1.monitoring.coreos.com",
	} {
		t.Run(file, func(t *testing.T) {
			if out, err := exec.CommandContext(ctx, kubectl, "explain", resource).CombinedOutput(); err != nil {
				t.Skipf("the cluster has no such resource: %s", out)
			}
			apply := exec.CommandContext(ctx, kubectl, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
			apply.Stdin = strings.NewReader(strings.ReplaceAll(read(t, file), "namespace: shop", "namespace: default"))
			if out, err := apply.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
