package interop_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/facade"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// broker hands out the same key until 300 s before its end, as brokers with a cache of their own do.
type broker struct {
	asked atomic.Int64
	held  aws.Credentials
}

func (b *broker) Retrieve(context.Context) (aws.Credentials, error) {
	b.asked.Add(1)
	if now := time.Now(); b.held.AccessKeyID == "" || b.held.Expires.Sub(now) < 300*time.Second {
		b.held = aws.Credentials{
			AccessKeyID: "AKIA" + now.Format("150405"), SecretAccessKey: "s", CanExpire: true, Expires: now.Add(time.Hour),
		}
	}
	return b.held, nil
}

// google-cloud-cpp#8255: a window of 500 s over a source that caches until 300 s before the end was 200 s of refreshing on
// every call. Here the unchanged answers are counted, the source is asked at a pace, and no read waits.
func TestWindowLongerThanTheProvidersCache_google_cloud_cpp8255(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, src := observed(t, metrics.Config{}), &broker{}
		c, err := creds.New(src, creds.Config{Name: "broker", Soft: 500 * time.Second, Jitter: -1, Metrics: tel.Metrics})
		if err != nil {
			t.Fatal(err)
		}
		for range 3500 {
			if v, err := c.Retrieve(t.Context()); err != nil || !v.Expires.After(time.Now()) {
				t.Fatal(v.Expires, err)
			}
			time.Sleep(time.Second)
		}
		events := tel.values("sortie.credential.events")
		unchanged := events["sortie.credential.source=broker sortie.reason=unchanged"]
		if unchanged < 1 || unchanged > 20 || float64(src.asked.Load()) != unchanged+2 || len(events) != 1 {
			t.Errorf("asked %d times; events %v", src.asked.Load(), events)
		}
		fetches := 0.0
		for _, n := range tel.values("sortie.credential.fetch.duration") {
			fetches += n
		}
		if fetches != float64(src.asked.Load()) {
			t.Errorf("%v fetches measured, %d made", fetches, src.asked.Load())
		}
		tel.want("sortie.credential.lifetime", map[string]float64{"sortie.credential.source=broker": 3600})
		s := c.Stats()
		tel.want("sortie.credential.remaining", map[string]float64{"sortie.credential.source=broker": s.Left.Seconds()})
		c.Close()
		tel.want("sortie.credential.remaining", map[string]float64{})
	})
}

func TestFailuresOfASourceAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{})
		answers := make(chan func() (aws.Credentials, error), 3)
		answers <- func() (aws.Credentials, error) { return aws.Credentials{}, errors.New("no") }
		answers <- func() (aws.Credentials, error) { panic("source") }
		answers <- func() (aws.Credentials, error) { return aws.Credentials{}, context.DeadlineExceeded }
		c, err := creds.New(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return (<-answers)()
		}), creds.Config{Name: "role", Metrics: tel.Metrics})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Retrieve(t.Context()); err == nil {
				t.Error("no error")
			}
			time.Sleep(time.Until(c.Stats().Next) + ms)
			synctest.Wait()
		}
		const source = "sortie.credential.source=role sortie.reason=cold"
		tel.want("sortie.credential.fetch.duration", map[string]float64{
			"error.type=credential_error " + source: 1, "error.type=panic " + source: 1, "error.type=timeout " + source: 1,
		})
		close(answers)
		c.Close()
	})
}

func TestLookupsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, dns := observed(t, metrics.Config{Development: true}), new(sortietest.DNS)
		tel.Upstream("catalog").Endpoint("catalog.example", 443)
		dns.Host("catalog.example", 30, "192.0.2.1")
		r := &dnscache.Resolver{Mode: dnscache.Absolute, Family: dnscache.IPv4, Jitter: -1, DialDNS: dns.DialContext, Metrics: tel.Metrics}
		look := func(name string) {
			if res, err := r.Lookup(t.Context(), name); err == nil && res.At(0) != netip.MustParseAddr("192.0.2.1") {
				t.Error(res)
			}
		}
		look("catalog.example")
		for range 10 {
			look("catalog.example") // hits are counted by Stats alone
		}
		look("none.example")
		look("none.example")
		look("not a name")
		dns.Respond = func(sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
			return sortietest.ServFail(), true
		}
		look("broken.example")
		time.Sleep(2 * time.Minute)
		look("catalog.example") // past its end, and DNS is in trouble
		tel.want("sortie.dns.lookups", map[string]float64{
			"sortie.dns.result=miss": 1, "sortie.dns.result=negative": 3, "sortie.dns.result=error": 1, "sortie.dns.result=stale": 1,
		})
		if s := r.Stats(); s.Hits < 10 {
			t.Errorf("%d hits", s.Hits)
		}
		codes := tel.values("sortie.dns.questions")
		if codes["sortie.dns.rcode=noerror"] != 1 || codes["sortie.dns.rcode=nxdomain"] != 1 || codes["sortie.dns.rcode=servfail"] < 2 || len(codes) != 3 {
			t.Error(codes)
		}
		durations := tel.values("dns.lookup.duration")
		if durations["dns.question.name=catalog.example"] != 1 || durations["dns.question.name=_OTHER error.type=dns_error"] < 2 {
			t.Error(durations)
		}
		r.Close()
	})
}

// A read that is answered from memory is a hit, also where the answer lacks something.
func TestAnIncompleteAnswerInMemoryIsNoMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, dns := observed(t, metrics.Config{}), new(sortietest.DNS)
		dns.Respond = func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
			if q.Type == "AAAA" {
				return sortietest.ServFail(), true
			}
			return sortietest.DNSReply{Addrs: []string{"192.0.2.1"}, TTL: 300}, true
		}
		r := &dnscache.Resolver{Mode: dnscache.Absolute, Jitter: -1, DialDNS: dns.DialContext, Metrics: tel.Metrics}
		for range 5 {
			if res, err := r.Lookup(t.Context(), "half.example"); err != nil || res.Len() != 1 {
				t.Error(res, err)
			}
			time.Sleep(100 * ms)
		}
		tel.want("sortie.dns.lookups", map[string]float64{"sortie.dns.result=miss": 1})
		r.Close()
	})
}

func TestRunsAndPartsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{})
		ok := func(context.Context) (int, error) { return 1, nil }
		fails := func(context.Context) (int, error) { return 0, errors.New("no") }
		run := func(news func(context.Context) (int, error), optional bool) {
			facade.Do(t.Context(), facade.Options{Name: "page", Metrics: tel.Metrics}, func(ctx context.Context, s *facade.Scope) (int, error) {
				user := facade.Go(s, "user", ok)
				prices := facade.Each(s, "price", []int{1, 2, 3}, func(context.Context, int) (int, error) { return 1, nil })
				n := facade.Go(s, "news", news, facade.Part[int]{Optional: optional})
				if _, err := prices.Get(ctx); err != nil {
					return 0, err
				}
				if _, err := user.Get(ctx); err != nil {
					return 0, err
				}
				return n.Get(ctx)
			})
		}
		run(ok, false)
		run(fails, true)
		tel.want("sortie.facade.duration", map[string]float64{
			"sortie.facade.name=page sortie.outcome=complete": 1, "sortie.facade.name=page sortie.outcome=degraded": 1,
		})
		tel.want("sortie.facade.parts", map[string]float64{
			"sortie.facade.name=page sortie.outcome=ok sortie.part.name=user":       2,
			"sortie.facade.name=page sortie.outcome=ok sortie.part.name=price":      2,
			"sortie.facade.name=page sortie.outcome=ok sortie.part.name=news":       1,
			"sortie.facade.name=page sortie.outcome=fallback sortie.part.name=news": 1,
		})
	})
}

// A function that does not heed its context is late, beside the state of its part.
func TestStragglersAreCountedAsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{})
		o := facade.Options{Name: "page", Timeout: 100 * ms, Metrics: tel.Metrics}
		facade.Do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) {
			return facade.Go(s, "deaf", func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 1, nil
			}).Get(ctx)
		})
		tel.want("sortie.facade.parts", map[string]float64{
			"sortie.facade.name=page sortie.outcome=failed sortie.part.name=deaf": 1,
			"sortie.facade.name=page sortie.outcome=late sortie.part.name=deaf":   1,
		})
		tel.want("sortie.facade.duration", map[string]float64{"sortie.facade.name=page sortie.outcome=failed": 1})
		time.Sleep(time.Second)
	})
}
