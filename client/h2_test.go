package client_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

func TestH2CSpeaksHTTP2WithoutTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		server := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", HTTP2: true, Steps: []sortietest.Step{sortietest.OK("hello")}}
		server.Start(t)
		c := newClient(t, client.Config{Dial: n.DialContext, Unlisted: client.Policy{Conns: &client.Conns{Protocol: client.H2C}}})
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				resp, err := c.Do(newRequest(t, t.Context(), "POST", server.URL(), strings.NewReader("body")))
				if err != nil {
					t.Error(err)
					return
				}
				if got := readAll(t, resp); got != "hello" || resp.Proto != "HTTP/2.0" {
					t.Errorf("read %q over %s", got, resp.Proto)
				}
			})
		}
		calls.Wait()
		if s := server.Stats(); s.Requests != 20 || s.Conns != 1 {
			t.Errorf("%d requests over %d connections", s.Requests, s.Conns)
		}
		if ep := unlistedStats(c).Endpoints[0]; ep.Proto != "HTTP/2.0" {
			t.Errorf("stats %+v", ep)
		}
		settled(t, c)
	})
}

func TestHTTP1StaysHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		server := &sortietest.Upstream{Network: n, Address: "10.0.0.1:443", TLS: true, HTTP2: true, Steps: []sortietest.Step{sortietest.OK("hello")}}
		server.Start(t)
		c := newClient(t, client.Config{Dial: n.DialContext,
			Unlisted: client.Policy{Conns: &client.Conns{Protocol: client.HTTP1, TLS: sortietest.ClientTLS()}}})
		resp := get(t, c, server.URL())
		if readAll(t, resp); resp.Proto != "HTTP/1.1" {
			t.Errorf("over %s", resp.Proto)
		}
	})
}

// refuseStreams speaks as much HTTP/2 as it takes to refuse every stream, and counts them.
func refuseStreams(conn net.Conn, refused *atomic.Int32) {
	const headers, reset, settings = 1, 3, 4
	const ack, refusedStream = 1, 7
	send := func(kind, flags byte, stream uint32, payload ...byte) {
		head := []byte{0, 0, byte(len(payload)), kind, flags}
		conn.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	}
	r := bufio.NewReader(conn)
	r.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	send(settings, 0, 0)
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		r.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
		switch kind, flags := head[3], head[4]; {
		case kind == settings && flags&ack == 0:
			send(settings, ack, 0)
		case kind == headers:
			refused.Add(1)
			send(reset, 0, binary.BigEndian.Uint32(head[5:]), 0, 0, 0, refusedStream)
		}
	}
}

func TestARefusedStreamIsRepeatedWhateverTheMethod(t *testing.T) {
	for _, retry := range []*client.Retry{nil, {Attempts: 4}} {
		synctest.Test(t, func(t *testing.T) {
			lab := newLab(t)
			ln, err := lab.Listen("10.0.0.1:80")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			var refused atomic.Int32
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						refuseStreams(conn, &refused)
					}()
				}
			}()
			var seen reports
			c := lab.client(client.Policy{
				Timeout: &client.Timeout{}, Retry: retry, Breaker: &client.Breaker{Consecutive: 2}, Conns: &client.Conns{Protocol: client.H2C},
			}, seen.config)
			_, err = c.Do(newRequest(t, t.Context(), "POST", up, strings.NewReader("body")))
			if client.ReasonOf(err) != client.ReasonStreamRefused || client.Refused(err) {
				t.Errorf("%v, Refused %v: %v", client.ReasonOf(err), client.Refused(err), err)
			}
			attempts := 1
			if retry != nil {
				attempts = retry.Attempts // it is nobody's failure: the breaker stays closed
			}
			if r := seen.only(t); len(r.Attempts) != attempts || r.ErrorType() != "connection_reset" || int(refused.Load()) < attempts {
				t.Errorf("%d attempts, %d streams: %v", len(r.Attempts), refused.Load(), r)
			}
			settled(t, c)
		})
	}
}

func TestReasonsOfCallsWithoutAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		var seen reports
		c := lab.client(client.Policy{Limit: &client.Limit{Max: 1, Queue: -1}}, seen.config, func(cfg *client.Config) { cfg.Guard = &client.Guard{} })
		held := get(t, c, up)
		strict := newClient(t, client.Config{Strict: true, OnCall: seen.add})
		closed := newClient(t, client.Config{OnCall: seen.add})
		closed.Close()
		for _, tc := range []struct {
			client    *client.Client
			url       string
			reason    client.Reason
			errorType string
			refused   bool
		}{
			{c, up, client.ReasonOverflow, "queue_full", true},
			{c, "http://127.0.0.1/", client.ReasonDenied, "no_endpoint", true},
			{strict, up, client.ReasonNoUpstream, "no_upstream", true},
			{closed, up, client.ReasonDraining, "draining", true},
			{c, "ftp://up.example/", client.ReasonInvalidRequest, "_OTHER", false},
		} {
			seen.all = nil
			_, err := tc.client.Do(newRequest(t, t.Context(), http.MethodPost, tc.url, nil))
			if client.ReasonOf(err) != tc.reason || !client.NeverSent(err) || client.Refused(err) != tc.refused || client.IsTimeout(err) {
				t.Errorf("%v: Refused %v: %v", client.ReasonOf(err), client.Refused(err), err)
			}
			if tc.client == closed {
				continue // whose hooks are silent
			}
			if r := seen.only(t); r.Reason != tc.reason || r.ErrorType() != tc.errorType || len(r.Attempts) != 0 {
				t.Errorf("report %v with error type %q", r, r.ErrorType())
			}
		}
		readAll(t, held)
	})
}
