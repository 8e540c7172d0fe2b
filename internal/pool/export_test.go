package pool

import (
	"net/http"
	"time"
)

// KeepAliveTimeout is the parser of Keep-Alive headers, to be fuzzed.
var KeepAliveTimeout = keepAliveTimeout

// Do is RoundTrip with an exchange of its own.
func (p *Pool) Do(req *http.Request, want Want) (*http.Response, Info, error) {
	x := new(Exchange)
	resp, err := p.RoundTrip(x, req, want, time.Now())
	return resp, *x.Info(), err
}
