package sortietest_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/sortietest"
)

// fakeTB is a test that can be watched failing.
type fakeTB struct {
	errors   []string
	fatal    bool
	cleanups []func()
}

func (f *fakeTB) Helper()                      {}
func (f *fakeTB) Cleanup(c func())             { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Logf(string, ...any)          {}
func (f *fakeTB) Errorf(s string, args ...any) { f.errors = append(f.errors, fmt.Sprintf(s, args...)) }
func (f *fakeTB) Fatalf(s string, args ...any) {
	f.Errorf(s, args...)
	f.fatal = true
}

func (f *fakeTB) end() {
	for _, c := range f.cleanups {
		c()
	}
}

func (f *fakeTB) wantOne(t *testing.T, part string) {
	t.Helper()
	if len(f.errors) != 1 || !strings.Contains(f.errors[0], part) {
		t.Errorf("errors %q, want one about %q", f.errors, part)
	}
}

func TestStartReportsMistakes(t *testing.T) {
	respond := func(*http.Request) sortietest.Step { return sortietest.OK("") }
	for _, test := range []struct {
		up   *sortietest.Upstream
		part string
	}{
		{&sortietest.Upstream{Respond: respond, Steps: []sortietest.Step{{}}}, "Respond"},
		{&sortietest.Upstream{StaleReuse: true}, "RequestsPerConn"},
		{&sortietest.Upstream{Hosts: []string{"catalog.example"}}, "TLS"},
		{&sortietest.Upstream{MaxStreams: 2}, "HTTP2"},
		{&sortietest.Upstream{MaxStreams: 2, StaleReuse: true}, "RequestsPerConn\nUpstream.MaxStreams"},
		{&sortietest.Upstream{Address: "nonsense"}, "address"},
		{&sortietest.Upstream{Address: "nonsense", Network: sortietest.NewNetwork()}, "address"},
	} {
		var tb fakeTB
		test.up.Start(&tb)
		if tb.wantOne(t, test.part); !tb.fatal {
			t.Errorf("%s: the test goes on", test.part)
		}
		if test.up.Addr() != "" || test.up.Close() != nil {
			t.Errorf("%s: started all the same", test.part)
		}
		tb.end()
	}
}

func TestStartTwice(t *testing.T) {
	up := sortietest.NewUpstream(t)
	if err := up.Listen(); err == nil {
		t.Error("started twice")
	}
	d := sortietest.NewDelay(t, up.Addr(), 0)
	if err := d.Listen(); err == nil {
		t.Error("delay started twice")
	}
}

func TestLostPortIsReported(t *testing.T) {
	n := sortietest.NewNetwork()
	var tb fakeTB
	up := n.NewUpstream(&tb, "10.0.0.1:80")
	up.Refuse()
	ln, err := n.Listen("10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	up.Restore()
	tb.wantOne(t, "restore")
	tb.end()
	ln.Close()

	up = &sortietest.Upstream{Network: n, Address: "10.0.0.1:80"} // without a test, Close tells
	if err := up.Listen(); err != nil {
		t.Fatal(err)
	}
	up.Refuse()
	ln, err = n.Listen("10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	up.Restore()
	if err := up.Close(); err == nil || !strings.Contains(err.Error(), "restore") {
		t.Errorf("Close: %v, want what Restore could not do", err)
	}
}

func TestPanicInAScriptFailsTheTest(t *testing.T) {
	var tb fakeTB
	up := sortietest.NewNetwork().NewUpstream(&tb, "10.0.0.1:80",
		sortietest.Handle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("script is wrong") })))
	if _, _, err := get(up.Client(), up.URL()); err == nil {
		t.Error("an answer after a panic")
	}
	up.Close()
	tb.wantOne(t, "script is wrong")
	tb.end()
}

func TestUnstarted(t *testing.T) {
	var up sortietest.Upstream
	if up.Addr() != "" || up.URL() != "" || up.Close() != nil || up.Stats().Requests != 0 || up.Requests() != nil {
		t.Error("an upstream that was never started is not idle")
	}
	up.Refuse()
	up.BlackHole()
	up.Restore()
	up.ResetConns()
	up.CloseIdle()
	var d sortietest.Delay
	if d.Addr() != "" || d.Stats().Conns != 0 {
		t.Error("a delay that was never started is not idle")
	}
	d.Close()
}

func TestLoopbackOnly(t *testing.T) {
	up := sortietest.NewUpstream(t)
	host, _, err := net.SplitHostPort(up.Addr())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("listens on %s", up.Addr())
	}
}
