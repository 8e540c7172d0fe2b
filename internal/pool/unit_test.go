package pool_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestDefaults(t *testing.T) {
	d := pool.Defaults()
	if d.MaxConns != 256 || d.MaxIdle != 256 || d.MinIdle != 0 || d.MaxStreams != 100 || d.MaxWaiters != 1024 || d.DialLimit != 8 ||
		d.MaxWait != 5*time.Second || d.DialTimeout != 5*time.Second || d.IdleTimeout != 30*time.Second || d.MaxAge != 5*time.Minute ||
		d.DrainBytes != 64<<10 || d.DrainTime != 50*time.Millisecond {
		t.Errorf("defaults %+v", d)
	}
	if d := (pool.Config{Proxy: &url.URL{}}).WithDefaults(); d.DialTimeout != 10*time.Second {
		t.Errorf("dial timeout by proxy %v", d.DialTimeout)
	}
	if d := (pool.Config{MaxConns: 7, MaxAge: -1, MinIdle: 9}).WithDefaults(); d.MaxIdle != 7 || d.MaxAge != -1 || d.MinIdle != 7 {
		t.Errorf("%+v", d)
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	for want, e := range map[string]*pool.Error{
		"waiting for a connection to a:1 (256 open, 250 busy, 2 dialing): context deadline exceeded": {
			Kind: pool.Wait, Open: 256, Busy: 250, Dialing: 2, Err: context.DeadlineExceeded},
		"waiting for a connection to a:1 (1 open, 1 busy, 0 dialing): too many waiting": {
			Kind: pool.Full, Open: 1, Busy: 1, Err: pool.ErrFull},
		"waiting for a connection to a:1 (0 open, 0 busy, 0 dialing): connection pool is closed": {
			Kind: pool.Closed, Err: pool.ErrClosed},
		"connecting to a:1 (tls): connection refused":       {Kind: pool.Dial, Step: pool.TLS, Err: syscall.ECONNREFUSED},
		"sending to a:1 (nothing was written): broken pipe": {Kind: pool.Send, NeverSent: true, Err: syscall.EPIPE},
		"sending to a:1 (not processed): broken pipe":       {Kind: pool.Send, Refused: true, Written: 9, Err: syscall.EPIPE},
		"sending to a:1: broken pipe":                       {Kind: pool.Send, Err: syscall.EPIPE},
		"sending to a:1 (9 bytes written, the request may have been processed): broken pipe": {
			Kind: pool.Send, Written: 9, Err: syscall.EPIPE},
	} {
		e.Host = "a:1"
		if e.Error() != want || !errors.Is(e, e.Err) {
			t.Errorf("%q, want %q", e.Error(), want)
		}
		if timeout := e.Err == context.DeadlineExceeded; e.Timeout() != timeout || e.Temporary() != timeout {
			t.Errorf("%v: timeout %v", e, e.Timeout())
		}
	}
}

func TestNamesAreComplete(t *testing.T) {
	names := map[string]bool{}
	add := func(s fmt.Stringer) {
		t.Helper()
		if s.String() == "" || names[s.String()] {
			t.Errorf("%T %v has the name %q", s, s, s.String())
		}
		names[s.String()] = true
	}
	for r := range pool.ReasonShutdown + 1 {
		add(r)
	}
	for k := range pool.EventGone + 1 {
		add(k)
	}
	for r := range pool.ResendIdempotent + 1 {
		add(r)
	}
	for _, s := range []pool.StepName{pool.DNS, pool.Connect, pool.TLS, pool.Proxy} {
		add(s)
	}
	for _, f := range []pool.LimitFrom{pool.LimitConfigured, pool.LimitKeepAlive, pool.LimitLearnt} {
		add(f)
	}
	for _, want := range strings.Fields("idle_timeout idle_limit age dns_gone undrained server goaway error shutdown") {
		if !names[want] {
			t.Errorf("no reason is called %q", want)
		}
	}
}
