package client

import (
	"net/http"

	"github.com/sortie-go/sortie/metrics"
)

// withSigner has the attempt's request signed, when all else about it is final. It waits for the signer and books that
// time as "credential".
func withSigner(signer Signer, next sender) sender {
	if signer == nil {
		return next
	}
	return func(c *call) (*http.Response, error) {
		a := c.last()
		a.ownHeader()
		c.book(metrics.PhaseOther)
		err := signer.Sign(a.ctx, &a.request)
		c.book(metrics.PhaseCredential)
		if err != nil {
			return nil, &refusal{c.reasonOr(ReasonCredential), err}
		}
		return next(c)
	}
}
