package client

import (
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func (c *Conns) orZero() Conns {
	if c == nil {
		return Conns{}
	}
	conns := *c
	conns.Ports = clone(c.Ports)
	return conns
}

// poolConfig copies the limits; the pool knows the same defaults, which a test compares with the comments here.
func (c Conns) poolConfig() pool.Config {
	return pool.Config{
		MaxConns: c.MaxConns, MaxIdle: c.MaxIdle, MinIdle: c.MinIdle, MaxStreams: c.MaxStreams,
		MaxWaiters: c.MaxWaiters, DialLimit: c.DialLimit,
		MaxWait: c.MaxWait, DialTimeout: c.DialTimeout, IdleTimeout: c.IdleTimeout, MaxAge: c.MaxAge,
		DrainBytes: c.DrainBytes, DrainTime: c.DrainTime,
	}
}

func (c Conns) transportConfig(serverName string) pool.TransportConfig {
	return pool.TransportConfig{
		TLS: c.TLS, ServerName: serverName, Protocol: pool.Protocol(c.Protocol),
		PingAfter:   orDefault(c.PingAfter, 15*time.Second),
		PingTimeout: orDefault(c.PingTimeout, 5*time.Second),
	}
}
