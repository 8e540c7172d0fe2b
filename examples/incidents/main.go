// Incidents reproduces the field reports behind Sortie on loopback sockets, each with the same program code once over a
// plain http.Client and once over Sortie, and prints the two side by side.
//
//	go run ./examples/incidents              all scenarios
//	go run ./examples/incidents -only side   one of them
//	go run ./examples/incidents -json        the figures as JSON
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

// A scenario is one field report, scaled to a few seconds.
type scenario struct {
	name  string
	title string // what happens, in a line
	run   func(context.Context, *progress) ([]result, error)
	moral string // what the figures show
}

// scenarios are run in this order.
func scenarios() []scenario {
	return []scenario{side(), dns(), four(), ports(), credentials(), page()}
}

// scenarioTime is the longest a scenario may take.
const scenarioTime = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "incidents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("incidents", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "run this scenario alone: "+names())
	asJSON := flags.Bool("json", false, "print one JSON array of results")
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; scenarios are chosen with -only", flags.Arg(0))
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}

	all := []result{}
	for _, s := range chosen {
		results, err := runOne(ctx, s, newProgress(stderr, s.name))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if !*asJSON {
			writeTable(stdout, s, results)
		}
		all = append(all, results...)
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	return nil
}

func runOne(ctx context.Context, s scenario, p *progress) ([]result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioTime, fmt.Errorf("took longer than %v; is the machine busy?", scenarioTime))
	defer cancel()
	defer p.done()
	results, err := s.run(ctx, p)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for i := range results {
		results[i].Scenario = s.name
	}
	return results, err
}

func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios(), nil
	}
	for _, s := range scenarios() {
		if s.name == only {
			return []scenario{s}, nil
		}
	}
	return nil, fmt.Errorf("no scenario %q; there are: %s", only, names())
}

func names() string {
	var all []string
	for _, s := range scenarios() {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}
