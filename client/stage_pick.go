package client

import "net/http"

// withPick chooses an endpoint and begins an attempt there. It waits for nothing; it gives the next stage an attempt whose
// request is complete but for credentials.
func withPick(up *upstream, next sender) sender {
	return func(c *call) (*http.Response, error) {
		ep, err := up.pick(c)
		if err != nil {
			return nil, err
		}
		if ep.denied != nil {
			ep.release()
			return nil, &refusal{ReasonDenied, ep.denied}
		}
		c.newAttempt(ep)
		return next(c)
	}
}
