package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestScenarioSide(t *testing.T) {
	results := runScenario(t, "side")
	if len(results) != 2 || results[0].Client != "plain" || results[1].Client != "sortie" {
		t.Fatalf("results %+v", results)
	}
	for _, r := range results {
		if r.Scenario != "side" || r.Calls != 200 || r.Failed != 0 || r.Connections < 1 {
			t.Errorf("result %+v", r)
		}
	}
	// Not how fast, but which way: the distances are part of the scenario.
	if plain, sortie := results[0], results[1]; plain.P50 < 150 || sortie.P50 >= 150 || sortie.Connections > 8 || sortie.Extra["public_connections"] != 0 {
		t.Errorf("plain %+v, sortie %+v", plain, sortie)
	}
}

func TestScenarioDNS(t *testing.T) {
	results := runScenario(t, "dns")
	if len(results) != 4 {
		t.Fatalf("results %+v", results)
	}
	plain, sortie, plainDead, sortieDead := results[0], results[1], results[2], results[3]
	if plain.Failed != 0 || sortie.Failed != 0 || plainDead.Failed != plainDead.Calls || sortieDead.Failed != 0 {
		t.Errorf("failed calls: %+v", results)
	}
	// Ten questions a lookup, which package net shares among the lookups that run at the moment; two in all.
	if plain.Extra["questions"] < 5*sortie.Extra["questions"] || sortie.Extra["questions"] > 4 || sortieDead.Extra["questions"] > 8 {
		t.Errorf("questions: %+v", results)
	}
	if sortie.Connections != sortie.Calls {
		t.Errorf("%d connections for %d calls: each should have needed one", sortie.Connections, sortie.Calls)
	}
}

func TestScenarioFour(t *testing.T) {
	results := runScenario(t, "four")
	if len(results) != 2 {
		t.Fatalf("results %+v", results)
	}
	plain, sortie := results[0], results[1]
	if plain.Failed == 0 || sortie.Failed != 0 {
		t.Errorf("failed calls: %+v", results)
	}
	if plain.Extra["share_2_percent"] < 20 || sortie.Extra["share_2_percent"] > 15 || sortie.Extra["share_3_percent"] > 5 {
		t.Errorf("shares of the slow and the dead backend: %+v", results)
	}
}

func TestScenarioPorts(t *testing.T) {
	results := runScenario(t, "ports")
	if len(results) != 3 {
		t.Fatalf("results %+v", results)
	}
	plain, sortie, tiny := results[0], results[1], results[2]
	if plain.Extra["outbound_timed_out"] == 0 || plain.Extra["most_ports_held"] != gatewayPorts || plain.Extra["syns_dropped"] == 0 {
		t.Errorf("the plain client did not run out of ports: %+v", plain)
	}
	if sortie.Failed != 0 || sortie.Connections > 40 || sortie.Extra["syns_dropped"] != 0 || sortie.Extra["outbound_calls"] != 5*float64(sortie.Calls) {
		t.Errorf("sortie: %+v", sortie)
	}
	if tiny.Connections != 7 || tiny.Extra["outbound_refused"] != tiny.Extra["outbound_calls"]-7 || tiny.Extra["outbound_timed_out"] != 0 ||
		tiny.Extra["retry_after_ms"] <= 300 || tiny.Extra["retry_after_ms"] > 2100 {
		t.Errorf("with a budget that is too small: %+v", tiny)
	}
}

func TestScenarioCredentials(t *testing.T) {
	results := runScenario(t, "credentials")
	if len(results) != 4 {
		t.Fatalf("results %+v", results)
	}
	plain, plainAway, sortie, sortieAway := results[0], results[1], results[2], results[3]
	if plain.Failed != 0 || sortie.Failed != 0 || plainAway.Failed != plainAway.Calls || sortieAway.Failed != 0 {
		t.Errorf("failed calls: %+v", results)
	}
	if plain.Extra["metadata_calls_per_request"] < 0.9 || sortie.Extra["metadata_calls_per_request"] > 0.2 {
		t.Errorf("metadata calls: %+v", results)
	}
}

func TestScenarioFacade(t *testing.T) {
	results := runScenario(t, "facade")
	if len(results) != 3 {
		t.Fatalf("results %+v", results)
	}
	serial, parallel, sortie := results[0], results[1], results[2]
	if sortie.Failed >= serial.Failed || sortie.Failed >= parallel.Failed || sortie.Failed == 0 {
		t.Errorf("failed pages: %+v", results) // every twentieth price fails, and a page needs its price
	}
}

// runScenario runs one scenario as a user would and reads its JSON.
func runScenario(t *testing.T, name string) []result {
	t.Helper()
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"-only", name, "-json"}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	var results []result
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&results); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Errorf("stderr: %s", &errs)
	}
	return results
}

func TestMistakesOnTheCommandLineAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-only none": `no scenario "none"; there are: side, dns, four, ports, credentials, facade`,
		"side":       `unexpected argument "side"; scenarios are chosen with -only`,
	} {
		var out, errs bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &out, &errs)
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(times, q); got != want {
			t.Errorf("quantile %v = %d, want %d", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("quantile of nothing")
	}
}
