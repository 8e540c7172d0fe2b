package sortietest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	keepRequests    = 1000
	keepRoutes      = 1000
	defaultKeepBody = 64 << 10
)

// Request is what an [Upstream] remembers of a request.
type Request struct {
	Time       time.Time // of arrival
	Method     string
	URL        *url.URL // path and query, as sent
	Host       string
	Proto      string // "HTTP/1.1" or "HTTP/2.0"
	Header     http.Header
	Body       []byte // what was read of it so far, up to [Upstream.KeepBody]
	BodyBytes  int64  // how much was read of it so far
	Conn       int    // the connection it came by: 1 for the first that was accepted
	ServerName string // the name the client asked for in the TLS handshake
}

// Stats counts what an [Upstream] has seen since it was started.
type Stats struct {
	Requests    int            // requests that arrived
	ByRoute     map[string]int // the same by method and path, "GET /items/7"; beyond 1,000 routes by "other"
	InFlight    int            // requests that are being answered, or hang
	MaxInFlight int            // the most there were at a time
	BodyBytes   int64          // bytes read of request bodies
	Conns       int            // connections accepted
	OpenConns   int            // connections that are open
}

// Stats returns the counts as they are now.
func (u *Upstream) Stats() Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.statsLocked()
}

func (u *Upstream) statsLocked() Stats {
	s := u.journal.stats
	s.ByRoute = maps.Clone(s.ByRoute)
	s.OpenConns = len(u.conns)
	return s
}

// Requests returns the last 1,000 requests, in the order in which they arrived.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	j := &u.journal
	var all []Request
	for i := range j.records {
		r := *j.records[(j.oldest+i)%len(j.records)]
		r.Body = slices.Clone(r.Body)
		all = append(all, r)
	}
	return all
}

// Await waits until the counts are as ready wants them, and asks it after each change. It returns an error only if
// ctx ends first: why it did. With it a test waits for what the upstream sees, instead of sleeping:
//
//	err := up.Await(ctx, func(s sortietest.Stats) bool { return s.Requests == 2 })
func (u *Upstream) Await(ctx context.Context, ready func(Stats) bool) error {
	for {
		u.mu.Lock()
		stats := u.statsLocked()
		if u.journal.wake == nil {
			u.journal.wake = make(chan struct{})
		}
		wake := u.journal.wake
		u.mu.Unlock()
		if ready(stats) {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// journal is what an upstream has seen. The upstream's mutex guards it.
type journal struct {
	keepBody int
	stats    Stats // but OpenConns
	records  []*Request
	oldest   int           // where a full ring of records begins
	wake     chan struct{} // closed at the next change, if somebody waits for it
}

func (j *journal) changed() {
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

func (j *journal) add(r *Request) {
	s := &j.stats
	s.Requests++
	s.InFlight++
	s.MaxInFlight = max(s.MaxInFlight, s.InFlight)
	route := r.Method + " " + r.URL.Path
	if _, known := s.ByRoute[route]; !known && len(s.ByRoute) >= keepRoutes {
		route = "other"
	}
	s.ByRoute[route]++
	if len(j.records) < keepRequests {
		j.records = append(j.records, r)
	} else {
		j.records[j.oldest] = r
		j.oldest = (j.oldest + 1) % keepRequests
	}
	j.changed()
}

// begin records the arrival of r, and from then on what is read of its body. It reports false on a closed upstream.
func (u *Upstream) begin(r *http.Request, c *conn) bool {
	where := *r.URL
	rec := &Request{
		Time:   time.Now(),
		Method: r.Method,
		URL:    &where,
		Host:   r.Host,
		Proto:  r.Proto,
		Header: r.Header.Clone(),
		Conn:   c.number,
	}
	if r.TLS != nil {
		rec.ServerName = r.TLS.ServerName
	}
	r.Body = &recorder{ReadCloser: r.Body, up: u, rec: rec}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.serving.Add(1)
	u.journal.add(rec)
	return true
}

func (u *Upstream) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.journal.stats.InFlight--
	u.journal.changed()
	u.serving.Done()
}

// recorder is a request body that records what is read of it.
type recorder struct {
	io.ReadCloser
	up  *Upstream
	rec *Request
}

func (b *recorder) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.up.mu.Lock()
		defer b.up.mu.Unlock()
		b.rec.BodyBytes += int64(n)
		b.rec.Body = append(b.rec.Body, p[:min(n, b.up.journal.keepBody-len(b.rec.Body))]...)
		b.up.journal.stats.BodyBytes += int64(n)
		b.up.journal.changed()
	}
	return n, err
}
