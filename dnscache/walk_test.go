package dnscache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

func TestWinnerAfterAFailureIsNotRemembered(t *testing.T) {
	r := ipv4()
	r.Mode = dnscache.Strict
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("redis.a", "A", sortietest.ServFail(), sortietest.ServFail(), sortietest.NXDomain())
		w.dns.Host("redis.b", 30, "192.0.2.1")
		w.lookup("redis")
		w.wantAsked("redis.a. A", "redis.a. A", "redis.b. A")
		time.Sleep(25 * time.Second)
		w.lookup("redis")
		w.wantAsked("redis.a. A", "redis.b. A") // the list once more, and this time b is proved
		time.Sleep(25 * time.Second)
		w.lookup("redis")
		w.wantAsked("redis.b. A")
	})
}

func TestFailuresOfAllCandidatesAreNoDenial(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("redis.b", "A", sortietest.ServFail())
		if e := w.fails("redis"); e.Kind != dnscache.Failure {
			t.Errorf("kind %v, though one of the names may exist", e.Kind)
		}
		w.wantCount("each candidate, the failing one twice", 6)
	})
}

func TestWinnerThatVanishesStartsTheListAgain(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("redis.a", 30, "192.0.2.1", "2001:db8::1")
		w.lookup("redis")
		w.asked()
		w.dns.Script("redis.a", "")
		w.dns.Host("redis.c", 30, "192.0.2.3", "2001:db8::3")
		time.Sleep(25 * time.Second)
		w.lookup("redis")
		synctest.Wait()
		got := w.lookup("redis")
		w.want(got, "192.0.2.3", "2001:db8::3")
		if got.Asked() != "redis.c." {
			t.Errorf("answered by %s", got.Asked())
		}
		// Both records were due, and asked alone at first. The one that was told first began the walk, so that at most one
		// question was for nothing.
		asked := w.asked()
		if len(asked) > 7 {
			t.Errorf("%d questions: %q", len(asked), asked)
		}
		slices.Sort(asked)
		if got, want := slices.Compact(asked), pair("redis.a.", "redis.b.", "redis.c."); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

func TestBothFamiliesComeFromOneSuffix(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("db.a", 30, "192.0.2.1")
		w.dns.Host("db.c", 30, "2001:db8::3")
		w.want(w.lookup("db"), "192.0.2.1")
		w.wantAsked(pair("db.a.")...)
	})
}

func TestZeroTTLIsAskedAgainEachSecond(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(0, "192.0.2.1"))
		for range 50 {
			w.lookup("api.example.com")
			time.Sleep(100*time.Millisecond + time.Microsecond)
		}
		w.wantCount("5 s of reads", 5)
	})
}

// A Resolver that has had an answer gives one for as long as MaxStale says, whatever the server does short of denying the
// name; it asks each family one question at a time; and what it gives has been answered.
func TestRandomFailuresNeverReachReaders(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &dnscache.Resolver{Jitter: 0.1}
			rnd := rand.New(rand.NewPCG(seed, 2))
			bubble(t, r, func(t *testing.T, w *world) { randomFailures(t, w, rnd) })
		})
	}
}

func randomFailures(t *testing.T, w *world, rnd *rand.Rand) {
	var mu sync.Mutex
	given := map[string]bool{}
	running := map[string]int{}
	good := true
	w.dns.Respond = func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
		mu.Lock()
		defer mu.Unlock()
		if running[q.String()]++; running[q.String()] > 1 {
			t.Errorf("two questions at a time: %v", q)
		}
		out := randomReply(rnd, good)
		for _, a := range out.Addrs {
			given[a] = true
		}
		lasts := out.Delay
		if out.Drop {
			lasts = time.Second
		}
		time.AfterFunc(max(0, lasts-time.Microsecond), func() {
			mu.Lock()
			defer mu.Unlock()
			running[q.String()]--
		})
		return out, true
	}
	w.lookup("api.example.com")
	for range 400 {
		mu.Lock()
		good = rnd.IntN(3) == 0
		wait := time.Duration(rnd.Int64N(int64(8 * time.Second)))
		mu.Unlock()
		time.Sleep(wait)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		var res dnscache.Result
		var err error
		if d := took(func() { res, err = w.r.Lookup(ctx, "api.example.com") }); err != nil || d > 500*time.Millisecond {
			t.Fatalf("%v after %v", err, d)
		}
		cancel()
		mu.Lock()
		for a := range res.All() {
			if !given[a.String()] {
				t.Errorf("%v was never answered", a)
			}
		}
		mu.Unlock()
	}
	if kinds := w.eventKinds(); slices.Contains(kinds, dnscache.EventHoldBegan) {
		t.Errorf("a hold without a denial: %v", kinds)
	}
}

// randomReply is an answer of both families, or a failure unless only good ones are wanted.
func randomReply(rnd *rand.Rand, good bool) sortietest.DNSReply {
	delay := time.Duration(rnd.Int64N(int64(300 * time.Millisecond)))
	n := rnd.IntN(200)
	switch kind := rnd.IntN(4); {
	case good || kind == 0:
		return sortietest.DNSReply{
			TTL: uint32(rnd.IntN(60)), Delay: delay,
			Addrs: []string{fmt.Sprintf("192.0.2.%d", n), fmt.Sprintf("2001:db8::%x", n+1)},
		}
	case kind == 1:
		return sortietest.DNSReply{Code: sortietest.DNSServFail, Delay: delay}
	case kind == 2:
		return sortietest.DNSReply{Code: sortietest.DNSRefused, Delay: delay}
	}
	return sortietest.DNSReply{Drop: true}
}
