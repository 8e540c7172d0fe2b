package client

// wouldHave notes what a policy in shadow mode would have done.
func (c *call) wouldHave(what string) {
	x := c.extras()
	c.mu.Lock()
	x.shadow = append(x.shadow, what)
	c.mu.Unlock()
}
