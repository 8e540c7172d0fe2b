package client

import (
	"container/list"
	"sync"
)

// A hostTable holds the endpoints of an upstream without bases, by scheme, host and port. It is bounded: beyond its size
// the least recently used endpoint without open calls goes; if all are busy, a newcomer gets an endpoint that is not kept.
type hostTable struct {
	size   int
	make   func(scheme string, host hostPort) *endpoint
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

func newHostTable(size int, newEndpoint func(string, hostPort) *endpoint, retire func(*endpoint)) *hostTable {
	return &hostTable{size: size, make: newEndpoint, retire: retire, places: make(map[tableKey]*tablePlace)}
}

// acquire returns the endpoint for a host, made if need be. The caller must release it.
func (t *hostTable) acquire(scheme string, host hostPort) *endpoint {
	key := tableKey{scheme, host}
	t.mu.Lock()
	if p := t.places[key]; p != nil {
		p.open++
		t.recency.MoveToFront(p.recency)
		t.mu.Unlock()
		return p.endpoint
	}
	p := &tablePlace{table: t, key: key, endpoint: t.make(scheme, host), open: 1}
	p.endpoint.place = p
	var retired *endpoint
	if len(t.places) >= t.size {
		retired = t.evictLocked()
	}
	if len(t.places) < t.size {
		t.places[key] = p
		p.recency = t.recency.PushFront(p)
	}
	t.mu.Unlock()
	if retired != nil {
		t.retire(retired)
	}
	return p.endpoint
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
