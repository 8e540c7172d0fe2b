package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// A schema is the part of OpenAPI by which an API server judges objects of a custom resource: that of one value.
type schema struct {
	Type        string             `json:"type"`
	Properties  map[string]*schema `json:"properties"`
	Additional  *schema            `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	Required    []string           `json:"required"`
	Enum        []any              `json:"enum"`
	Minimum     *float64           `json:"minimum"`
	MinItems    int                `json:"minItems"`
	MinLength   int                `json:"minLength"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
}

// check returns what is wrong with a value; names of fields lead to it. An unknown field is wrong.
func (s *schema) check(path string, value any) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, path+": "+fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		bad("%v is none of %v", value, s.Enum)
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			bad("an object, want %s", s.Type)
			return wrong
		}
		return append(wrong, s.checkFields(path, v)...)
	case []any:
		if s.Type != "array" || len(v) < s.MinItems {
			bad("%d items, want %s of %d at least", len(v), s.Type, s.MinItems)
			return wrong
		}
		for i, item := range v {
			wrong = append(wrong, s.Items.check(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	case string:
		if s.Type != "string" && !s.IntOrString || len(v) < s.MinLength {
			bad("%q, want %s of %d characters at least", v, s.Type, s.MinLength)
		}
	case float64:
		if s.Type != "number" && (s.Type != "integer" && !s.IntOrString || v != float64(int64(v))) || s.Minimum != nil && v < *s.Minimum {
			bad("%v, want %s", v, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			bad("a boolean, want %s", s.Type)
		}
	default:
		bad("%T", value)
	}
	return wrong
}

func (s *schema) checkFields(path string, v map[string]any) (wrong []string) {
	for _, name := range s.Required {
		if v[name] == nil {
			wrong = append(wrong, path+": "+name+" is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		at := path + "." + name
		switch {
		case s.Properties[name] != nil:
			wrong = append(wrong, s.Properties[name].check(at, v[name])...)
		case s.Additional != nil:
			wrong = append(wrong, s.Additional.check(at, v[name])...)
		case path != ".metadata": // which the server checks by the rules of every object, not by this schema
			wrong = append(wrong, at+": unknown field")
		}
	}
	return wrong
}

// checkText checks a YAML document.
func (s *schema) checkText(t *testing.T, text string) []string {
	t.Helper()
	var value map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return s.check("", value)
}
