package metrics

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A SetupStep is one of the three steps of setting a connection up: lookup of the name, connect, handshake.
type SetupStep struct {
	Happened bool
	Time     time.Duration
}

// Dial describes a dial that has ended: used, speculative, too late or failed.
type Dial struct {
	Conn  uint64       // id of the connection; 0 if it failed
	End   time.Time    // when it was ready, or failed
	Setup [3]SetupStep // DNS, connect, TLS; the last that happened is the one that failed
	Error ErrorType
}

// Dialed records a dial.
func (e *Endpoint) Dialed(d Dial) {
	if e == nil {
		return
	}
	ctx, m, u := detached(), e.u.m, e.u
	m.count(ctx, connectionOpened, key{u.value, value(d.Error.known())})
	last := lastStep(d.Setup)
	for i, step := range d.Setup {
		if !step.Happened {
			continue
		}
		failed := NoError
		if i == last {
			failed = d.Error
		}
		m.took(ctx, setupDuration, step.Time, key{u.value, value(i) + 1, value(failed.known())})
	}
	if m.cfg.ConnectionSpans && m.tracing.on() {
		e.connectionSpan(d)
	}
}

func lastStep(setup [3]SetupStep) int {
	last := -1
	for i, step := range setup {
		if step.Happened {
			last = i
		}
	}
	return last
}

// connectionSpan is made when the dial has ended: who waited for it is not its parent, since it may serve others.
func (e *Endpoint) connectionSpan(d Dial) {
	var took time.Duration
	attrs := make([]attribute.KeyValue, 0, 8)
	for i, p := range [...]Phase{PhaseDNS, PhaseConnect, PhaseTLS} {
		if step := d.Setup[i]; step.Happened {
			took += step.Time
			attrs = append(attrs, attribute.Float64("sortie.phase."+p.String(), step.Time.Seconds()))
		}
	}
	attrs = append(appendError(attrs, d.Error), keyUpstream.String(e.u.name))
	name := "connect " + other
	if e.at.host != "" {
		name = fmt.Sprintf("connect %s:%d", e.at.host, e.at.port)
	}
	_, span := e.u.m.tracing.tracer.Start(detached(), name, trace.WithNewRoot(),
		trace.WithTimestamp(d.End.Add(-took)), trace.WithAttributes(attrs...))
	if d.Error != NoError {
		span.SetStatus(codes.Error, d.Error.String())
	}
	span.End(trace.WithTimestamp(d.End))
	if d.Conn != 0 {
		e.u.recent.add(d.Conn, span.SpanContext())
	}
}

// Closed describes the end of a connection.
type Closed struct {
	Reason   string // idle_timeout, idle_limit, age, dns_gone, undrained, server, goaway, error or shutdown
	Age      time.Duration
	Requests int    // carried
	Proto    string // "HTTP/1.1" or "HTTP/2.0"
}

// Closed records the end of a connection.
func (e *Endpoint) Closed(c Closed) {
	if e == nil {
		return
	}
	ctx, m := detached(), e.u.m
	m.count(ctx, connectionClosed, key{e.u.value, byCloseReason.valueOf(c.Reason)})
	m.size(ctx, connectionRequests, int64(c.Requests), key{e.u.value})
	m.took(ctx, connectionDuration, c.Age, key{e.value, protocolValue(c.Proto)})
}
