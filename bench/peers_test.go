package bench_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gojek/heimdall/v7/hystrix"
	"github.com/hashicorp/go-retryablehttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"resty.dev/v3"
)

// peerTimeout is the limit of the peers that have one, long enough never to strike here.
const peerTimeout = 15 * time.Second

// peer is a client that people use today, above whichever transport it is given.
type peer struct {
	name string
	make func(*testing.B, http.RoundTripper) doer
}

var peers = []peer{
	{"failsafe", failsafePeer},
	{"resty", restyPeer},
	{"heimdall", heimdallPeer},
	{"retryablehttp", retryablePeer},
	{"otelhttp", otelPeer},
}

// failsafePeer retries, breaks and limits the time of each attempt, in this order from the outside.
func failsafePeer(_ *testing.B, below http.RoundTripper) doer {
	return &http.Client{Transport: failsafehttp.NewRoundTripper(below,
		failsafehttp.NewRetryPolicyBuilder().Build(),
		circuitbreaker.NewWithDefaults[*http.Response](),
		timeout.New[*http.Response](peerTimeout),
	)}
}

// restyPeer goes through resty's own request, since its http.Client has none of its features.
func restyPeer(b *testing.B, below http.RoundTripper) doer {
	c := resty.New().SetTransport(below).SetRetryCount(2)
	b.Cleanup(func() { c.Close() })
	return restyDoer{c}
}

type restyDoer struct{ c *resty.Client }

func (d restyDoer) Do(req *http.Request) (*http.Response, error) {
	resp, err := d.c.R().SetContext(req.Context()).SetResponseDoNotParse(true).Execute(req.Method, req.URL.String())
	if err != nil {
		return nil, err
	}
	return resp.RawResponse, nil
}

// heimdallPeer has a concurrency limit. Its tickets come back on another goroutine, which a loop over no wire can outrun by
// far, so the limit is set where it never refuses.
func heimdallPeer(b *testing.B, below http.RoundTripper) doer {
	return hystrix.NewClient(
		hystrix.WithCommandName(b.Name()),
		hystrix.WithHTTPClient(&http.Client{Transport: below}),
		hystrix.WithHystrixTimeout(peerTimeout),
		hystrix.WithMaxConcurrentRequests(100_000),
		hystrix.WithRetryCount(2),
	)
}

func retryablePeer(_ *testing.B, below http.RoundTripper) doer {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: below}
	c.Logger = nil // its default writes two lines for each call
	return c.StandardClient()
}

// otelPeer makes spans and measurements that nobody receives.
func otelPeer(_ *testing.B, below http.RoundTripper) doer {
	return &http.Client{Transport: otelhttp.NewTransport(below,
		otelhttp.WithTracerProvider(tracenoop.NewTracerProvider()),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
	)}
}
