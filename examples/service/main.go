// Service is a small real service on Sortie: one page made of five outbound calls, with metrics for Prometheus, readiness, and
// an end that loses no request. Its upstreams are embedded, so one command is enough:
//
//	go run ./examples/service
//	curl http://127.0.0.1:8080/page/7
//	curl http://127.0.0.1:8080/ready
//	curl http://127.0.0.1:9090/metrics
//
// The ports and paths are those of the manifests in deploy.
//
// It stops on SIGTERM or an interrupt, in order: not ready, then serving on for -delay, then no new requests, then the
// client, then a last word of the metrics. A second signal ends it at once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	cfg := config{out: os.Stdout}
	flag.StringVar(&cfg.addr, "addr", "127.0.0.1:8080", "where to serve pages and readiness; port 0 takes a free one")
	flag.StringVar(&cfg.metricsAddr, "metrics", "127.0.0.1:9090", "where to serve /metrics, which no ingress should lead to")
	flag.DurationVar(&cfg.delay, "delay", 5*time.Second, "how long to go on serving after a signal, until load balancers have noticed")
	flag.DurationVar(&cfg.drain, "drain", 20*time.Second, "how long requests and calls may then take to end")
	flag.BoolVar(&cfg.trouble, "trouble", true, "whether some of the upstreams' answers are errors")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("service takes no arguments, but got %q; see -help", flag.Args())
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal has its usual effect: the process ends
	}()
	if err := run(ctx, cfg); err != nil {
		log.Fatal(err)
	}
}

// config is what the flags say.
type config struct {
	addr, metricsAddr string
	delay, drain      time.Duration
	trouble           bool
	out               io.Writer
}

// say prints one line of progress.
func (c *config) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }
