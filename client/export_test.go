package client

// A Usage is a usage, for the test of what no call can be made to meet.
type Usage struct{ usage }

// NewUsage returns one that nothing uses.
func NewUsage() *Usage { return &Usage{usage{last: make(chan struct{})}} }

// Enter, Leave and Retire are the methods of usage.
func (u *Usage) Enter() bool             { return u.enter() }
func (u *Usage) Leave()                  { u.leave() }
func (u *Usage) Retire() <-chan struct{} { return u.retire() }
