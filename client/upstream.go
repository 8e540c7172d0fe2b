package client

import (
	"github.com/sortie-go/sortie/internal/budget"
)

// unlistedName is the name of the upstream that stands for every host no upstream lists.
const unlistedName = "_unlisted"

// An upstream is one configuration of an upstream at work: the pipeline of the calls that begin under it. It is immutable. What
// calls share with those of other configurations is in its core.
type upstream struct {
	*core
	exactHost    string // the first host that is no wildcard; for URL
	preserveHost bool
	policy       Policy
	timeout      Timeout
	limit        *limitPolicy   // nil: off
	retry        *retryPolicy   // nil: off
	hedge        *hedgePolicy   // nil: off
	budget       *budget.Budget // nil: nothing spends it
	signer       Signer
	bases        parsedBases
	send         sender
}

// identity reports whether URLs are used as they are.
func (up *upstream) identity() bool { return len(up.bases.internal)+len(up.bases.external) == 0 }

// spill is the factor in force; 0 is never.
func (u *Upstream) spill() float64 {
	if len(u.Internal) == 0 || len(u.External) == 0 {
		return 0
	}
	return max(orDefault(u.SpillFactor, 1.4), 0)
}

// clone returns a copy that shares nothing with p that a caller might change, but for what Conns.TLS and Balance.Hash refer to.
func (p Policy) clone() Policy {
	p.Timeout, p.Limit, p.Retry, p.Hedge = clone(p.Timeout), clone(p.Limit), clone(p.Retry), clone(p.Hedge)
	p.Breaker, p.Eject, p.Balance, p.Conns = clone(p.Breaker), clone(p.Eject), clone(p.Balance), clone(p.Conns)
	return p
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
