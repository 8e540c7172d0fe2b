package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/client"
)

// shops are the services behind the page, on loopback ports of this process: in real life they are somewhere else.
type shops struct {
	servers []*http.Server
	addrs   map[string][]string // by name of the upstream
}

// startUpstreams starts two catalog servers, of which one is slow, and one server each for what else the page needs. With
// trouble, reviews and advice fail now and then.
func startUpstreams(trouble bool) (*shops, error) {
	s := &shops{addrs: make(map[string][]string)}
	often, seldom := 0.0, 0.0
	if trouble {
		often, seldom = 0.1, 0.02
	}
	for _, u := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"catalog", answer(3*time.Millisecond, 0, item{ID: "7", Name: "lamp", Group: "light"})},
		{"catalog", answer(12*time.Millisecond, 0, item{ID: "7", Name: "lamp", Group: "light"})},
		{"price", answer(2*time.Millisecond, 0, price{Cents: 1999})},
		{"stock", answer(4*time.Millisecond, 0, stock{Pieces: 3})},
		{"reviews", answer(5*time.Millisecond, often, []string{"bright", "warm"})},
		{"advice", answer(8*time.Millisecond, seldom, []string{"bulb", "shade"})},
	} {
		if err := s.start(u.name, u.answer); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *shops) start(name string, h http.HandlerFunc) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	s.servers = append(s.servers, server)
	s.addrs[name] = append(s.addrs[name], "http://"+l.Addr().String())
	go func() { _ = server.Serve(l) }() // it ends with close
	return nil
}

// close ends the servers, and returns what went wrong.
func (s *shops) close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

// upstreams is the configuration of the client: each service is known by its public name, and lives inside at its address.
func (s *shops) upstreams() (list []client.Upstream) {
	for _, name := range []string{"catalog", "price", "stock", "reviews", "advice"} {
		list = append(list, client.Upstream{
			Name:     name,
			Hosts:    []string{name + ".shop.example"},
			Internal: s.addrs[name],
			Policy:   client.Standard(),
		})
	}
	return list
}

// answer serves v after about d, but for the share of requests that fail.
func answer(d time.Duration, failing float64, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d/2 + rand.N(d))
		if rand.Float64() < failing {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // an error means that the caller went away
	}
}
