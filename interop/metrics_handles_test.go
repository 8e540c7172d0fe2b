package interop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sortie-go/sortie/metrics"
)

const ms = time.Millisecond

// answered is an attempt that began at start over a connection in use, and had this status.
func answered(start time.Time, status int) *metrics.Attempt {
	return &metrics.Attempt{
		Start: start, Duration: 20 * ms, Status: status, Error: metrics.StatusError(status), Proto: "HTTP/1.1",
		Conn: 7, Reused: true, Peer: netip.MustParseAddr("192.0.2.1"), Sent: -1, Received: 512,
	}
}

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// CVE-2023-45142: what callers choose must not make series.
func TestHostileLabelsMakeNoSeries_CVE_2023_45142(t *testing.T) {
	tel := observed(t, metrics.Config{Development: true})
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("x%x", r.Uint64()) }
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	inbound := tel.Inbound(mux)
	const calls = 10_000
	for range calls {
		method, host := word(), word()+".example"
		u := tel.Upstream(word())
		ctx, call := u.StartCall(t.Context(), word(), time.Now())
		target := parse(t, "https://"+host+"/"+word())
		e := u.Endpoint(host, 1+r.IntN(65535))
		_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{Method: method, URL: target, Start: time.Now()})
		attempt.End(&metrics.Attempt{Status: r.IntN(1000), Error: metrics.ErrorType(r.IntN(700)), Proto: word(), Peer: netip.AddrFrom4([4]byte{10, byte(r.IntN(256)), 0, 1})})
		call.End(&metrics.Call{Method: method, Error: metrics.ErrorType(r.IntN(700)), Cache: word(), Attempts: 1})
		u.Retried(ctx, word(), word())
		tel.Facade(word()).Part(ctx, word(), word())
		tel.Credential(word()).Fetched(word(), time.Second, metrics.ErrorTimeout)
		tel.Resolver().Asked(host, time.Second, metrics.NoError)

		req := httptest.NewRequest(method, "/items/"+word(), nil)
		req.Header.Set("User-Agent", word())
		inbound.ServeHTTP(httptest.NewRecorder(), req)
	}
	var folded float64
	most := 0
	for name, series := range tel.collect() {
		most = max(most, len(series))
		if len(series) > 1500 { // those included that are folded by error type
			t.Errorf("%s: %d series", name, len(series))
		}
		for _, p := range series {
			text := p.series()
			if strings.Contains(text, "otel.metric.overflow") {
				t.Errorf("%s: overflow", name)
			}
			if m, ok := p.set.Value("http.request.method"); ok && m.String() != "_OTHER" {
				t.Errorf("%s: method %q", name, m.String())
			}
			if name == "sortie.metrics.folded" {
				folded += p.value
			}
		}
	}
	if folded == 0 || most <= 1500-219 { // room is kept for each of the 219 error types, none among them
		t.Errorf("%v measurements were counted as folded, and at most %d series of an instrument: no bound was reached", folded, most)
	}
	var lost uint64
	for _, n := range tel.Stats().Folded {
		lost += n
	}
	if float64(lost) != folded {
		t.Errorf("Stats counts %d folded measurements, the counter %v", lost, folded)
	}
}

// Names beyond the bound go by "_OTHER", and each measurement that does is counted. Calls that find no upstream do too, and
// are not.
func TestFoldedMeasurementsAreCounted(t *testing.T) {
	tel := observed(t, metrics.Config{MaxUpstreams: 2})
	for _, name := range []string{"a", "b", "c", "d", "a", ""} {
		tel.Upstream(name).BreakerRejected(t.Context())
	}
	tel.want("sortie.breaker.rejected", map[string]float64{
		"sortie.upstream=a": 2, "sortie.upstream=b": 1, "sortie.upstream=_OTHER": 3,
	})
	tel.want("sortie.metrics.folded", map[string]float64{"sortie.instrument=sortie.breaker.rejected": 2})
}

// Names that many goroutines bring at the same time are all there, up to the last one that has room.
func TestNamesOfManyGoroutines(t *testing.T) {
	tel := observed(t, metrics.Config{MaxUpstreams: 50})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 50 {
				tel.Upstream(fmt.Sprint("u", i)).BreakerRejected(t.Context())
			}
		})
	}
	all.Wait()
	got := tel.values("sortie.breaker.rejected")
	for series, n := range got {
		if n != 8 {
			t.Errorf("%s: %v, want 8", series, n)
		}
	}
	if len(got) != 50 {
		t.Errorf("%d series, want 50", len(got))
	}
	tel.want("sortie.metrics.folded", map[string]float64{})
}

// A lookup of a host for which there was no room is folded; one of a name that no endpoint has is not.
func TestFoldedHostsOfLookupsAreCounted(t *testing.T) {
	tel := observed(t, metrics.Config{Development: true})
	u, r := tel.Upstream("catalog"), tel.Resolver()
	r.Asked("search.example", ms, metrics.NoError)
	const hosts = 500
	for i := range hosts + 1 {
		u.Endpoint(fmt.Sprintf("h%d.example", i), 443)
	}
	r.Asked("h0.example", ms, metrics.NoError)
	r.Asked(fmt.Sprintf("h%d.example", hosts), ms, metrics.NoError)
	tel.want("dns.lookup.duration", map[string]float64{"dns.question.name=h0.example": 1, "dns.question.name=_OTHER": 2})
	tel.want("sortie.metrics.folded", map[string]float64{"sortie.instrument=dns.lookup.duration": 1})
}

// Each facade has room for 50 names of parts, whatever the others have, and so have those together for which there was none.
func TestPartsAreBoundedByFacade(t *testing.T) {
	tel := observed(t, metrics.Config{})
	for i := range 52 {
		f := tel.Facade(fmt.Sprint("facade", i))
		for j := range 52 {
			f.Part(t.Context(), fmt.Sprint("part", j), "ok")
		}
	}
	tel.Facade("facade0").Part(t.Context(), "part0", "ok")
	tel.Facade("facade0").Part(t.Context(), "", "ok")
	got := tel.values("sortie.facade.parts")
	for series, want := range map[string]float64{
		"sortie.facade.name=facade0 sortie.outcome=ok sortie.part.name=part0":  2,
		"sortie.facade.name=facade0 sortie.outcome=ok sortie.part.name=part49": 1,
		"sortie.facade.name=facade0 sortie.outcome=ok sortie.part.name=part50": 0,
		"sortie.facade.name=facade9 sortie.outcome=ok sortie.part.name=part49": 1,
	} {
		if got[series] != want {
			t.Errorf("%s: %v, want %v", series, got[series], want)
		}
	}
	var sum float64
	for _, n := range got {
		sum += n
	}
	if len(got) != 1500 || sum != 52*52+2 {
		t.Errorf("%d series that add up to %v", len(got), sum)
	}
}

// A hook that runs late must not count an outcome twice.
func TestOutcomesAreRecordedOnce(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("catalog")
	start := time.Now()
	ctx, call := u.StartCall(t.Context(), "internal", start)
	_, attempt := u.Endpoint("catalog.example", 443).StartAttempt(ctx, metrics.AttemptStart{
		Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start,
	})
	for range 2 {
		attempt.End(answered(start, 200))
		call.End(&metrics.Call{Method: "GET", Start: start, Attempts: 1})
	}
	tel.want("sortie.call.attempts", map[string]float64{"sortie.upstream=catalog": 1})
	tel.want("sortie.connection.acquired", map[string]float64{"sortie.connection.reused=true sortie.upstream=catalog": 1})
	if n := len(tel.ended()); n != 2 {
		t.Errorf("%d spans", n)
	}
}

// What does not fit keeps its error type, since alerts divide by it.
func TestFoldingKeepsTheErrorType(t *testing.T) {
	tel := observed(t, metrics.Config{MaxUpstreams: 1000})
	failures := 0
	for i := range 4000 {
		u := tel.Upstream(fmt.Sprint("u", i%1000))
		_, call := u.StartCall(t.Context(), "internal", time.Now())
		failed := metrics.NoError
		if i%4 == 3 {
			failed, failures = metrics.ErrorTimeout, failures+1
		}
		call.End(&metrics.Call{Method: [...]string{"GET", "PUT"}[i/2%2], Error: failed, Cache: [...]string{"", "hit", "miss"}[i%3]})
	}
	sum, folded := 0.0, 0.0
	for series, n := range tel.values("sortie.call.duration") {
		if strings.Contains(series, "error.type=timeout") {
			sum += n
			if strings.Contains(series, "sortie.upstream=_OTHER") {
				folded += n
			}
		}
	}
	if sum != float64(failures) || folded == 0 {
		t.Errorf("%v calls with error.type=timeout, %v of them folded; want %d and some", sum, folded, failures)
	}
}

// semantic-conventions#3495: the caller's cancellation is no error, a deadline is; span and metric agree.
func TestCancelIsNoFailureADeadlineIs_semconv3495(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("catalog")
	e := u.Endpoint("catalog.example", 443)
	for _, failed := range []metrics.ErrorType{metrics.NoError, metrics.ErrorTimeout} {
		start := time.Now()
		ctx, call := u.StartCall(t.Context(), "internal", start)
		_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start})
		attempt.End(&metrics.Attempt{Start: start, Duration: 30 * ms, Error: failed, Sent: -1, Received: -1})
		call.End(&metrics.Call{Method: "GET", Error: failed, Start: start, Duration: 30 * ms, Attempts: 1})
	}
	spans := tel.ended()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, s := range spans {
		code, text := codes.Unset, ""
		if i >= 2 {
			code, text = codes.Error, "timeout"
		}
		if s.Status().Code != code || attr(s, "error.type") != text {
			t.Errorf("%s: %v, error.type %q", s.Name(), s.Status(), attr(s, "error.type"))
		}
	}
	tel.want("sortie.call.duration", map[string]float64{
		"http.request.method=GET sortie.side=internal sortie.upstream=catalog":                    1,
		"error.type=timeout http.request.method=GET sortie.side=internal sortie.upstream=catalog": 1,
	})
	tel.want("http.client.request.duration", map[string]float64{
		"http.request.method=GET server.address=catalog.example server.port=443":                    1,
		"error.type=timeout http.request.method=GET server.address=catalog.example server.port=443": 1,
	})
}

// The conventions for HTTP spans: one CLIENT span for each attempt, and no other HTTP span around them.
func TestSpanTreeOfRetries(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("catalog")
	e := u.Endpoint("catalog.example", 443)
	start := time.Now()
	ctx, call := u.StartCall(t.Context(), "external", start)
	for i, status := range []int{500, 500, 200} {
		began := start.Add(time.Duration(i) * 50 * ms)
		_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{
			Method: "GET", Template: "/items/{id}", URL: parse(t, "https://catalog.example/items/7"), Resend: i, Start: began,
		})
		attempt.End(answered(began, status))
	}
	call.End(&metrics.Call{Method: "GET", Status: 200, Start: start, Duration: 200 * ms, Attempts: 3})

	spans := tel.ended()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	root := spans[0]
	if root.Name() != "call catalog" || root.SpanKind() != trace.SpanKindInternal || root.Status().Code != codes.Unset {
		t.Errorf("%s, %v, %v", root.Name(), root.SpanKind(), root.Status())
	}
	if attr(root, "sortie.attempts") != "3" || attr(root, "sortie.side") != "external" || attr(root, "sortie.upstream") != "catalog" {
		t.Error(root.Attributes())
	}
	for i, s := range spans[1:] {
		resend := [...]string{"", "1", "2"}[i]
		code := [...]codes.Code{codes.Error, codes.Error, codes.Unset}[i]
		if s.Name() != "GET /items/{id}" || s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s, %v, parent %v", s.Name(), s.SpanKind(), s.Parent().SpanID())
		}
		if s.Status().Code != code || attr(s, "http.request.resend_count") != resend {
			t.Errorf("attempt %d: %v, resend_count %q", i, s.Status(), attr(s, "http.request.resend_count"))
		}
	}
	last := spans[3]
	for key, want := range map[string]string{
		"http.request.method": "GET", "server.address": "catalog.example", "server.port": "443",
		"url.full": "https://catalog.example/items/7", "url.template": "/items/{id}", "http.response.status_code": "200",
		"network.protocol.version": "1.1", "network.peer.address": "192.0.2.1", "sortie.connection.reused": "true",
		"error.type": "", "sortie.hedge": "",
	} {
		if got := attr(last, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// otelhttp shows a span of 201 ms beside a measurement of 1 ms for one body of 200 ms.
func TestSpanAndHistogramOfAnAttemptAgree(t *testing.T) {
	tel := observed(t, metrics.Config{})
	e := tel.Upstream("catalog").Endpoint("catalog.example", 443)
	start := time.Now()
	_, attempt := e.StartAttempt(t.Context(), metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start})
	a := answered(start, 200)
	a.Error = metrics.ErrorBody // a body of 200 ms that broke: known long after the headers
	attempt.End(a)
	s := tel.ended()[0]
	p := tel.collect()["http.client.request.duration"][0]
	if span := s.EndTime().Sub(s.StartTime()); span != 20*ms || p.value != span.Seconds() {
		t.Errorf("span %v, histogram %v s", span, p.value)
	}
	if p.trace != s.SpanContext().TraceID().String() {
		t.Errorf("exemplar %q, want the trace %s", p.trace, s.SpanContext().TraceID())
	}
	if !strings.Contains(p.series(), "error.type=body_error") || !strings.Contains(p.series(), "http.response.status_code=200") {
		t.Error(p.series())
	}
}

// An attempt counts once, whether it leaves an exemplar or not.
func TestAnAttemptCountsOnceExemplarOrNot_client_golang1117(t *testing.T) {
	tel := observed(t, metrics.Config{})
	e := tel.Upstream("catalog").Endpoint("catalog.example", 443)
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	exemplars := 0
	for i, ctx := range []context.Context{unsampled, t.Context()} {
		_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: time.Now()})
		attempt.End(answered(time.Now(), 200))
		points := tel.collect()["http.client.request.duration"]
		if len(points) != 1 || points[0].count != uint64(i+1) {
			t.Errorf("after %d attempts: %+v", i+1, points)
			continue
		}
		if points[0].trace != "" {
			exemplars++
		}
	}
	if exemplars != 1 {
		t.Errorf("%d attempts left an exemplar, want that of the sampled trace", exemplars)
	}
}

// The conventions for url.full, and signed URLs.
func TestSecretsAreRedactedInSpans(t *testing.T) {
	tel := observed(t, metrics.Config{})
	e := tel.Upstream("store").Endpoint("store.example", 443)
	_, attempt := e.StartAttempt(t.Context(), metrics.AttemptStart{
		Method: "GET", Start: time.Now(),
		URL: parse(t, "https://user:pass@store.example/k?sig=abc&color=blue&X-Amz-Signature=0f0f"),
	})
	attempt.End(answered(time.Now(), 200))
	const want = "https://REDACTED:REDACTED@store.example/k?sig=REDACTED&color=blue&X-Amz-Signature=REDACTED"
	if got := attr(tel.ended()[0], "url.full"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestHedgeAndUnlistedHostInSpans(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("_unlisted")
	_, attempt := u.Endpoint("", 0).StartAttempt(t.Context(), metrics.AttemptStart{
		Method: "BREW", URL: parse(t, "http://pot.example/"), Hedge: true, Start: time.Now(),
	})
	attempt.End(&metrics.Attempt{Duration: ms, Sent: -1, Received: -1})
	s := tel.ended()[0]
	if s.Name() != "HTTP" || attr(s, "server.address") != "pot.example" || attr(s, "server.port") != "80" ||
		attr(s, "http.request.method") != "_OTHER" || attr(s, "sortie.hedge") != "true" {
		t.Error(s.Name(), s.Attributes())
	}
	tel.want("http.client.request.duration", map[string]float64{"http.request.method=_OTHER server.address=_OTHER": 1})
}

func TestConnectionSpansAreRootsThatAttemptsLinkTo(t *testing.T) {
	tel := observed(t, metrics.Config{ConnectionSpans: true})
	e := tel.Upstream("catalog").Endpoint("catalog.example", 443)
	start := time.Now()
	_, waited := e.StartAttempt(t.Context(), metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start})
	_, other := e.StartAttempt(t.Context(), metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start})
	e.Dialed(metrics.Dial{Conn: 7, End: start.Add(9 * ms), Setup: setup(2*ms, 3*ms, 4*ms)})
	a := answered(start, 200)
	other.End(a)
	a.Waited = true
	waited.End(a)

	var conn trace.SpanContext
	links := 0
	for _, s := range tel.ended() {
		if s.Name() == "connect catalog.example:443" {
			conn = s.SpanContext()
			if s.Parent().IsValid() || s.EndTime().Sub(s.StartTime()) != 9*ms || attr(s, "sortie.phase.tls") != "0.004" {
				t.Errorf("parent %v, %v, %v", s.Parent(), s.EndTime().Sub(s.StartTime()), s.Attributes())
			}
		}
	}
	for _, s := range tel.ended() {
		for _, l := range s.Links() {
			links++
			if !l.SpanContext.Equal(conn) {
				t.Error("a link to another span")
			}
		}
	}
	if links != 1 || !conn.IsValid() {
		t.Errorf("%d links, connection span %v", links, conn)
	}
}

// setup is the set-up of a connection in three steps.
func setup(dns, connect, tls time.Duration) (s [3]metrics.SetupStep) {
	for i, d := range [...]time.Duration{dns, connect, tls} {
		s[i] = metrics.SetupStep{Happened: true, Time: d}
	}
	return s
}
