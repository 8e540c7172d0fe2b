//go:build ignore

// Checkincidents reads the output of "go run ./examples/incidents -json" and fails unless it is one array of results
// as the program promises them: known fields only, each measured by at least the two clients that are compared.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

type result struct {
	Scenario    string             `json:"scenario"`
	Client      string             `json:"client"`
	Calls       *int               `json:"calls"`
	Failed      *int               `json:"failed"`
	P50         *float64           `json:"p50_ms"`
	P99         *float64           `json:"p99_ms"`
	PerSecond   *float64           `json:"per_s"`
	Connections *int               `json:"connections"`
	Extra       map[string]float64 `json:"extra"`
}

func main() {
	if err := check(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "incidents:", err)
		os.Exit(1)
	}
}

func check(r io.Reader) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var results []result
	if err := dec.Decode(&results); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the array")
	}
	clients := map[string]int{}
	for i, r := range results {
		switch {
		case r.Scenario == "" || r.Client == "":
			return fmt.Errorf("result %d names no scenario or no client", i)
		case r.Calls == nil || r.Failed == nil || r.P50 == nil || r.P99 == nil || r.PerSecond == nil || r.Connections == nil:
			return fmt.Errorf("result %d (%s, %s) lacks a number", i, r.Scenario, r.Client)
		}
		clients[r.Scenario]++
	}
	for scenario, n := range clients {
		if n < 2 {
			return fmt.Errorf("scenario %s has one result, so nothing is compared", scenario)
		}
	}
	if len(results) == 0 {
		return errors.New("no results")
	}
	fmt.Printf("%d results of %d scenarios\n", len(results), len(clients))
	return nil
}
