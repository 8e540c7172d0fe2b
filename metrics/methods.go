package metrics

import "net/http"

// methods numbers the HTTP methods that may stand in an attribute. Anything else is "_OTHER" (CVE-2023-45142).
type methods struct {
	index map[string]value
	list  []string
}

// standardMethods are those that the semantic conventions know.
var standardMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch,
	http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace, "QUERY",
}

func newMethods(extra []string) methods {
	m := methods{index: make(map[string]value), list: []string{other}}
	for _, list := range [][]string{standardMethods, extra} {
		for _, name := range list {
			if _, known := m.index[name]; !known {
				m.index[name] = value(len(m.list))
				m.list = append(m.list, name)
			}
		}
	}
	return m
}

// value returns the number of a method as it stands in http.Request, where none means GET.
func (m *methods) value(method string) value {
	switch method {
	case "", http.MethodGet:
		return 1
	case http.MethodPost:
		return 2
	}
	return m.index[method]
}

func (m *methods) name(v value) string { return m.list[v] }
