package client

import (
	"net/http"
)

// withDeadline sets the call's time limits. They run until its body ends; limits.go enforces them. It waits for nothing.
func withDeadline(policy Timeout, next sender) sender {
	return func(c *call) (*http.Response, error) {
		c.setLimits(policy)
		return next(c)
	}
}

// setLimits puts the limits in force: the call's own options first, then the policy.
func (c *call) setLimits(policy Timeout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.progress = policy.Progress
	opts := c.options()
	c.limits.perAttempt = max(orDefault(opts.Attempt, policy.Attempt), 0)

	total := max(orDefault(opts.Total, policy.Total), 0)
	if total == 0 {
		return
	}
	// A caller's deadline that comes first is enforced by the caller's context; a second timer would only race it.
	if deadline, ok := c.context().Deadline(); !ok || c.start.Add(total).Before(deadline) {
		c.limits.total = total
		c.armLocked(0)
	}
}
