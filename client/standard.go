package client

// Standard returns the recommended policy: limits of time, a bounded number of calls, retries within a budget, breakers,
// ejection and balance, each with its defaults. Hedging is off, as it needs knowledge of the upstream. Each call returns a
// fresh value; changing its fields is the usual way to tune.
//
//	policy := client.Standard()
//	policy.Timeout.Total = 3 * time.Second
//
// Three whole attempts fit into the total time.
func Standard() Policy {
	return Policy{
		Timeout: &Timeout{},
		Limit:   &Limit{},
		Retry:   &Retry{},
		Breaker: &Breaker{},
		Eject:   &Eject{},
		Balance: &Balance{},
	}
}
