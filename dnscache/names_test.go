package dnscache_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sortie-go/sortie/dnscache"
)

func TestCandidates_gatus1769_kubernetes14051(t *testing.T) {
	const list = "search ns.svc.cluster.local svc.cluster.local cluster.local example.org\noptions ndots:5\n"
	const plain = "nameserver 192.0.2.53\n"
	for _, tc := range []struct {
		name string
		mode dnscache.Mode
		conf string
		host string // of this machine
		want string
	}{
		{"api.example.com", dnscache.Auto, list, "", "api.example.com. api.example.com.ns.svc.cluster.local. " +
			"api.example.com.svc.cluster.local. api.example.com.cluster.local. api.example.com.example.org."},
		{"api.example.com", dnscache.Strict, list, "", "hosts api.example.com.ns.svc.cluster.local. " +
			"api.example.com.svc.cluster.local. api.example.com.cluster.local. api.example.com.example.org. api.example.com."},
		{"api.example.com", dnscache.Absolute, list, "", "api.example.com."},
		{"api.example.com.", dnscache.Strict, list, "", "api.example.com."},
		{"redis", dnscache.Auto, list, "", "hosts redis.ns.svc.cluster.local. redis.svc.cluster.local. redis.cluster.local. redis.example.org. redis."},
		{"redis", dnscache.Absolute, list, "", "hosts redis."},
		{"redis.prod", dnscache.Auto, list, "", "hosts redis.prod.ns.svc.cluster.local. redis.prod.svc.cluster.local. " +
			"redis.prod.cluster.local. redis.prod.example.org. redis.prod."},
		{"a.b.c.d.e.f", dnscache.Strict, list, "", "a.b.c.d.e.f. a.b.c.d.e.f.ns.svc.cluster.local. " +
			"a.b.c.d.e.f.svc.cluster.local. a.b.c.d.e.f.cluster.local. a.b.c.d.e.f.example.org."},
		{"api.example", dnscache.Auto, plain, "", "api.example."},
		{"redis", dnscache.Auto, plain, "", "hosts redis."},
		{"redis", dnscache.Auto, plain, "pod-1.ns.example", "hosts redis.ns.example. redis."},
		{"redis", dnscache.Auto, "", "", "hosts redis."},
		{"x." + strings.Repeat("abcdefgh.", 27) + "com", dnscache.Strict, list, "", "x." + strings.Repeat("abcdefgh.", 27) + "com."},
	} {
		got := strings.Join(dnscache.Candidates(tc.name, tc.mode, tc.conf, tc.host), " ")
		if got != tc.want {
			t.Errorf("%s, %v:\n got %s\nwant %s", tc.name, tc.mode, got, tc.want)
		}
	}
}

func TestNothingSuffixedReachesServersOfTheUser_gatus1769(t *testing.T) {
	servers := twoServers(t)
	bubble(t, servers.resolver(), func(t *testing.T, w *world) {
		servers.world(w)
		w.fails("redis")
		w.fails("redis.prod")
		w.fails("api.missing.example")
		for _, q := range servers.good.Questions() {
			if q.Name != "redis." && q.Name != "redis.prod." && q.Name != "api.missing.example." {
				t.Errorf("asked for %s", q.Name)
			}
		}
	})
}

func TestParseResolvConf(t *testing.T) {
	for _, tc := range []struct {
		text   string
		search string
		ndots  int
		single bool
	}{
		{"", "", 1, false},
		{"search A.example b.example.\n", "a.example. b.example.", 1, false},
		{"search a\ndomain b c\n", "b.", 1, false},
		{"domain b\nsearch a . c\n", "a. c.", 1, false},
		{"# search x\n; search y\nsearch a # b\n", "a. #. b.", 1, false},
		{"options ndots:5 single-request timeout:1\n", "", 5, true},
		{"options ndots:99\noptions single-request-reopen\n", "", 15, true},
		{"options ndots:-3\n", "", 0, false},
		{"options ndots:many\n", "", 0, false},
		{"  search\ta\t b  \n", "a. b.", 1, false},
		{"search\noptions\nnameserver\n", "", 1, false},
	} {
		search, ndots, single := dnscache.ParseResolvConf(tc.text, "localhost")
		if got := strings.Join(search, " "); got != tc.search || ndots != tc.ndots || single != tc.single {
			t.Errorf("%q: search %q, ndots %d, single %v", tc.text, got, ndots, single)
		}
	}
}

func TestBadNamesAreNotAsked(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		for _, name := range []string{
			"", ".", "..", "a..b", ".a", "-a.example", "a-.example", "a b", "a/b", "a:80", "bücher.example", "\u212aube.example",
			"expyuzz4wqqyqhjn.onion", "EXPYUZZ4WQQYQHJN.ONION.", "[::1", "::1]", "1.2.3", "256.256.256.256",
			strings.Repeat("a", 64) + ".example", strings.Repeat("abcdefg.", 32) + "example",
		} {
			if e := w.fails(name); e.Kind != dnscache.NotFound {
				t.Errorf("%q: kind %v", name, e.Kind)
			}
		}
		w.wantCount("bad names", 0)
		if n := w.r.Stats().Names; n != 0 {
			t.Errorf("%d names kept", n)
		}
	})
}

func TestLiteralsAreTheirOwnAnswer(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		for name, want := range map[string]string{
			"192.0.2.1": "192.0.2.1", "[192.0.2.1]": "192.0.2.1", "2001:db8::1": "2001:db8::1", "[2001:db8::1]": "2001:db8::1",
			"fe80::1%eth0": "fe80::1%eth0", "[fe80::1%eth0]": "fe80::1%eth0", "::ffff:192.0.2.1": "192.0.2.1",
		} {
			r := w.lookup(name)
			w.want(r, want)
			if r.Source() != dnscache.SourceLiteral || r.Stale() || r.TTL() < 1<<60 {
				t.Errorf("%s: from %v, TTL %v", name, r.Source(), r.TTL())
			}
		}
		if err := w.r.Pin(t.Context(), "192.0.2.1"); err != nil {
			t.Error(err)
		}
		w.wantCount("literals", 0)
		if s := w.r.Stats(); s.Names != 0 {
			t.Errorf("%d names kept", s.Names)
		}
	})
}

func TestSpellingsShareOneRecord(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1")
		w.lookup("API.Example.COM")
		w.lookup("api.example.com")
		w.wantCount("two spellings", 2)
		w.lookup("api.example.com.") // absolute: a name of its own
		w.wantCount("with a dot at its end", 2)
	})
}

func TestHostsFileIsAskedForShortNames(t *testing.T) {
	for _, mode := range []dnscache.Mode{dnscache.Auto, dnscache.Strict, dnscache.Absolute} {
		bubble(t, &dnscache.Resolver{Mode: mode}, func(t *testing.T, w *world) {
			r := w.lookup("localhost")
			if r.Source() != dnscache.SourceHosts || !r.At(0).IsLoopback() || r.TTL() != 5*time.Second {
				t.Errorf("%v from %v, TTL %v", r, r.Source(), r.TTL())
			}
			w.wantCount("localhost", 0)
		})
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"api.example.com", "localhost", "[::1]", "fe80::1%x", "a..b", "\u212a", "x.onion.", "a.", "1.2.3"} {
		f.Add(s, uint8(0), "search a b\noptions ndots:2\n")
	}
	f.Fuzz(func(t *testing.T, name string, mode uint8, conf string) {
		if addr, ok := dnscache.Literal(name); ok {
			if addr.Is4In6() {
				t.Errorf("%q: %v is not unmapped", name, addr)
			}
			return
		}
		key, ok := dnscache.Canonical(name)
		if !ok {
			return
		}
		if again, ok := dnscache.Canonical(key); !ok || again != key {
			t.Errorf("%q: %q is not canonical", name, key)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) || unicode.IsSpace(r) }) {
			t.Errorf("%q became %q", name, key)
		}
		list := dnscache.Candidates(key, dnscache.Mode(mode%3), conf, "")
		for _, c := range list {
			if c != "hosts" && (!strings.HasSuffix(c, ".") || len(c) > 254) {
				t.Errorf("%q: candidate %q", key, c)
			}
		}
		if !slices.Contains(list, strings.TrimSuffix(key, ".")+".") {
			t.Errorf("%q is not among its own candidates, %q", key, list)
		}
	})
}

func FuzzResolvConf(f *testing.F) {
	f.Add("search a b\noptions ndots:5 single-request\n", "host.example")
	f.Add("domain\x00 .\nsearch ..\n;", "")
	f.Fuzz(func(t *testing.T, text, hostname string) {
		search, ndots, _ := dnscache.ParseResolvConf(text, hostname)
		if ndots < 0 || ndots > 15 {
			t.Errorf("ndots %d", ndots)
		}
		for _, s := range search {
			if !strings.HasSuffix(s, ".") || s == "." || len(s) > 254 {
				t.Errorf("suffix %q", s)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	name := dnsmessage.MustNewName("api.example.com.")
	alias := dnsmessage.MustNewName("lb.example.net.")
	good := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Answers: []dnsmessage.Resource{
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 300}, Body: &dnsmessage.CNAMEResource{CNAME: alias}},
			{Header: dnsmessage.ResourceHeader{Name: alias, Class: dnsmessage.ClassINET, TTL: 30}, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}},
		},
		Authorities: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.SOAResource{NS: name, MBox: name, MinTTL: 60},
		}},
	}
	msg, err := good.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg, false)
	f.Add(msg[:40], true)
	good.RCode, good.Answers = dnsmessage.RCodeNameError, nil
	msg, _ = good.Pack()
	f.Add(msg, true)
	f.Fuzz(func(t *testing.T, msg []byte, stream bool) {
		r, ok := dnscache.ParseReply(7, "api.example.com.", dnsmessage.TypeA, msg, stream)
		if !ok {
			t.Fatal("the question was not made")
		}
		var p dnsmessage.Parser
		h, err := p.Start(msg)
		if r.Verdict != "ignored" && (err != nil || h.ID != 7 || !h.Response) {
			t.Errorf("%v counts", r)
		}
		if (r.Verdict == "positive") != (len(r.Addrs) > 0) {
			t.Errorf("%+v", r)
		}
		for _, a := range r.Addrs {
			if !a.Is4() {
				t.Errorf("%v answers a question for A", a)
			}
		}
		if r.Verdict == "soft" && r.Why == "" {
			t.Errorf("%+v gives no reason", r)
		}
	})
}
