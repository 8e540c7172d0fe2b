package client

import (
	"container/list"
	"sync"
)

// A hostTable holds the endpoints of an upstream without bases, by scheme, host and port. It is bounded: beyond its size
// the least recently used endpoint without open calls goes; if all are busy, a newcomer gets an endpoint that is not kept.
type hostTable struct {
	size   int
	make   func(scheme string, host hostPort) (*endpoint, error)
	retire func(*endpoint) // must not block

	mu      sync.Mutex
	places  map[tableKey]*tablePlace
	recency list.List // of *tablePlace, most recent first
}

type tableKey struct {
	scheme string
	host   hostPort
}

// A tablePlace is an endpoint's place in the table.
type tablePlace struct {
	table    *hostTable
	key      tableKey
	endpoint *endpoint
	open     int           // calls that use it
	recency  *list.Element // nil: not kept
}

func newHostTable(size int, newEndpoint func(string, hostPort) (*endpoint, error), retire func(*endpoint)) *hostTable {
	return &hostTable{size: size, make: newEndpoint, retire: retire, places: make(map[tableKey]*tablePlace)}
}

// acquire returns the endpoint for a host, made if need be. The caller must release it.
func (t *hostTable) acquire(scheme string, host hostPort) (*endpoint, error) {
	key := tableKey{scheme, host}
	if ep := t.take(key); ep != nil {
		return ep, nil
	}
	made, err := t.make(scheme, host) // not under the lock: it asks the user's Proxy
	if err != nil {
		return nil, err
	}
	ep, superfluous := t.put(key, made)
	for _, s := range superfluous {
		t.retire(s)
	}
	return ep, nil
}

// take returns a known host's endpoint; nil if it is not known.
func (t *hostTable) take(key tableKey) *endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[key]
	if p == nil {
		return nil
	}
	p.open++
	t.recency.MoveToFront(p.recency)
	return p.endpoint
}

// put enters a new endpoint, unless somebody else was faster, and returns the one to use and those that have to go.
func (t *hostTable) put(key tableKey, made *endpoint) (use *endpoint, superfluous []*endpoint) {
	if ep := t.take(key); ep != nil {
		return ep, []*endpoint{made}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &tablePlace{table: t, key: key, endpoint: made, open: 1}
	made.place = p
	if len(t.places) >= t.size {
		if evicted := t.evictLocked(); evicted != nil {
			superfluous = append(superfluous, evicted)
		}
	}
	if len(t.places) < t.size && t.places[key] == nil {
		t.places[key] = p
		p.recency = t.recency.PushFront(p)
	}
	return made, superfluous
}

// evictLocked takes the least recently used endpoint without open calls out of the table; nil if all are busy.
func (t *hostTable) evictLocked() *endpoint {
	for e := t.recency.Back(); e != nil; e = e.Prev() {
		if p := e.Value.(*tablePlace); p.open == 0 {
			t.recency.Remove(e)
			delete(t.places, p.key)
			return p.endpoint
		}
	}
	return nil
}

// release ends one call's use.
func (p *tablePlace) release() {
	p.table.mu.Lock()
	p.open--
	gone := p.open == 0 && p.recency == nil
	p.table.mu.Unlock()
	if gone {
		p.table.retire(p.endpoint)
	}
}

// all returns the endpoints in the table, most recent first.
func (t *hostTable) all() []*endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	endpoints := make([]*endpoint, 0, len(t.places))
	for e := t.recency.Front(); e != nil; e = e.Next() {
		endpoints = append(endpoints, e.Value.(*tablePlace).endpoint)
	}
	return endpoints
}
