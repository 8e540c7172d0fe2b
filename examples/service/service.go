package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

// A service is everything that runs, in the order in which it starts.
type service struct {
	config
	telemetry *telemetry
	calls     *client.Client
	ready     readiness
	pages     *http.Server // and readiness
	scrapes   *http.Server // of the metrics
	failed    chan error   // of a server that ends by itself
}

// run serves until ctx ends, then stops in order. It returns nil if nothing was lost.
func run(ctx context.Context, cfg config) error {
	shops, err := startUpstreams(cfg.trouble)
	if err != nil {
		return fmt.Errorf("starting the embedded upstreams: %w", err)
	}
	defer shops.close()
	s, err := newService(cfg, shops)
	if err != nil {
		return err
	}
	defer s.calls.Close()
	if err := s.start(); err != nil {
		return errors.Join(err, s.scrapes.Close(), s.pages.Close())
	}
	select {
	case err := <-s.failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	return s.stop()
}

func newService(cfg config, shops *shops) (s *service, err error) {
	s = &service{config: cfg, failed: make(chan error, 2)}
	if s.telemetry, err = newTelemetry(); err != nil {
		return nil, fmt.Errorf("setting up metrics: %w", err)
	}
	s.calls, err = client.New(client.Config{
		Side:      client.Internal, // in a cluster that is found out; on a desk it has to be said
		Upstreams: shops.upstreams(),
		Metrics:   s.telemetry.metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the client: %w", err)
	}
	s.pages = newServer(routes(newPage(s.calls, s.telemetry.metrics), &s.ready, s.telemetry.metrics))
	scrapes := http.NewServeMux()
	scrapes.Handle("GET /metrics", s.telemetry.handler)
	s.scrapes = newServer(scrapes)
	return s, nil
}

// routes puts the middleware around what the autoscaler scales by: pages, and not probes.
func routes(page, ready http.Handler, m *metrics.Metrics) http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /page/{id}", page)
	all := http.NewServeMux()
	all.Handle("/", m.Inbound(pages))
	all.Handle("GET /ready", ready)
	return all
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
}

// start listens and serves.
func (s *service) start() error {
	scrapes, err := net.Listen("tcp", s.metricsAddr)
	if err != nil {
		return fmt.Errorf("listening on -metrics %s: %w", s.metricsAddr, err)
	}
	pages, err := net.Listen("tcp", s.addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listening on -addr %s: %w", s.addr, err), scrapes.Close())
	}
	go s.serve(s.scrapes, scrapes)
	go s.serve(s.pages, pages)
	s.ready.set(true)
	s.say("pages    http://%s/page/7", pages.Addr())
	s.say("metrics  http://%s/metrics", scrapes.Addr())
	return nil
}

func (s *service) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.failed <- err
	}
}

// stop ends the service in order. Its contexts are fresh: the one that the signal has ended would cut everything short.
func (s *service) stop() error {
	s.say("not ready any more; serving for %v until everybody has noticed", s.delay)
	s.ready.set(false)
	s.calls.Drain()
	time.Sleep(s.delay)

	s.say("taking no more requests; those that run have %v", s.drain)
	ctx, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	errPages := s.pages.Shutdown(ctx)
	errCalls := s.calls.Shutdown(ctx) // after the server, whose handlers need it

	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	errFlush := s.telemetry.shutdown(last)
	errScrapes := s.scrapes.Shutdown(last)
	if err := errors.Join(errPages, errCalls, errFlush, errScrapes); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	s.say("stopped; nothing was lost")
	return nil
}

// readiness tells a load balancer whether to send requests.
type readiness struct{ ready atomic.Bool }

func (r *readiness) set(ready bool) { r.ready.Store(ready) }

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !r.ready.Load() {
		http.Error(w, "stopping", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}
