package interop_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
)

// opensearch-go over client.Client: its own retries and signer off, ours on.
func TestOpenSearchClientOverSortie(t *testing.T) {
	cache, md := credentials15(t)
	s := newSigned(t, md, false, func(nth int, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case nth == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/_search"):
			io.WriteString(w, `{"took":1,"hits":{"total":{"value":7,"relation":"eq"},"hits":[]}}`)
		case strings.HasSuffix(r.URL.Path, "/_bulk"):
			io.WriteString(w, `{"took":1,"errors":false,"items":[]}`)
		default:
			return false
		}
		return true
	})
	signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
	c := searching(t, s, signer, client.Policy{Retry: &client.Retry{}})
	os, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
		Addresses: []string{"https://search.example"}, Transport: c, DisableRetry: true, HealthCheckMaxRetries: -1, Context: t.Context(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	search := func(indices ...string) {
		t.Helper()
		resp, err := os.Search(t.Context(), &opensearchapi.SearchReq{
			Header:  http.Header{"Idempotency-Key": {"1"}}, // a search is a POST, and may be sent again
			Indices: indices, Body: strings.NewReader(`{"query":{"match_all":{}}}`),
			Params: opensearchapi.SearchParams{FilterPath: []string{"took", "hits.total.*"}, Sort: []string{"@timestamp:desc", "a b"}},
		})
		if err != nil || resp.Hits.Total.Value != 7 {
			t.Errorf("search in %v: %v", indices, err)
		}
	}
	search("logs-*", "metrics,2026")
	search("<logs-{now/d}>") // the second request, of which the first attempt fails
	lines := strings.Repeat(`{"index":{"_id":"1"}}`+"\n"+`{"message":"a"}`+"\n", 1000)
	if _, err := os.Bulk(t.Context(), opensearchapi.BulkReq{Index: "logs-1", Body: strings.NewReader(lines)}); err != nil {
		t.Error(err)
	}
	s.expire("SORTIETEST0001")
	search("logs-1")

	all := s.all()
	if last := all[len(all)-1]; last.key != "SORTIETEST0002" || len(all) != 6 {
		t.Errorf("%d requests, the last with %s", len(all), last.key)
	}
}
