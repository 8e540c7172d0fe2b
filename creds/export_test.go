package creds

import "time"

// StepWall moves the wall clock that the Cache sees, without moving time: a step of NTP, or a suspend.
func (c *Cache) StepWall(d time.Duration) { c.core.wallShift.Add(int64(d)) }

// Look is what the loop does every 30 s.
func (c *Cache) Look() { c.core.look(time.Now()) }

// SetSkew is what a signer does that has learnt that a service's clock is ahead.
func (c *Cache) SetSkew(d time.Duration) { c.core.setSkew(d) }

// Warm is the part of a read that Sign pays for, which has read the clock already.
func (c *Cache) Warm(now time.Time) bool { return c.core.warm(now) != nil }
