package client

import (
	"net/http"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// withSigner has the attempt's request signed, when all else about it is final. It waits for the signer and books that
// time as "credential".
func withSigner(signer Signer, try trier) trier {
	if signer == nil {
		return try
	}
	return func(a *attempt) (*http.Response, error) {
		a.ownHeader()
		a.watch.rest(time.Now())
		err := signer.Sign(a.ctx, &a.request)
		a.watch.book(metrics.PhaseCredential, time.Now())
		if err != nil {
			return nil, a.fails(a.reasonOr(ReasonCredential), err)
		}
		return try(a)
	}
}
