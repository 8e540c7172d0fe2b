package client

// wouldHave notes what a policy in shadow mode would have done.
func (c *call) wouldHave(what string) {
	c.mu.Lock()
	c.shadow = append(c.shadow, what)
	c.mu.Unlock()
}
