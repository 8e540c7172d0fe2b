package deploy_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// read returns the text of a file of this folder.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decode reads YAML as an API server does when it is asked to be strict: no unknown field, no field twice, and names in
// their exact case.
func decode(text string, into any) error {
	plain, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(plain, into)
	return errors.Join(append(strict, err)...)
}

// load decodes the only document of a file.
func load[T any](t *testing.T, name string) *T {
	t.Helper()
	into := new(T)
	if err := decode(read(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// documents returns the YAML documents of a file.
func documents(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(read(t, name), "\n---\n")
}

func TestDecodingIsStrict(t *testing.T) {
	for what, text := range map[string]string{
		"unknown field": "kind: HorizontalPodAutoscaler\nspec: {minReplica: 1}",
		"twice":         "kind: HorizontalPodAutoscaler\nkind: HorizontalPodAutoscaler",
		"wrong case":    "kind: HorizontalPodAutoscaler\nspec: {minreplicas: 1}",
		"wrong type":    "kind: HorizontalPodAutoscaler\nspec: {minReplicas: many}",
	} {
		if err := decode(text, &autoscaling.HorizontalPodAutoscaler{}); err == nil {
			t.Errorf("%s: decoded", what)
		}
	}
}
