package client

import (
	"container/list"
	"sync"

	"github.com/sortie-go/sortie/internal/balance"
)

// A hostTable holds the clusters of an upstream without bases, by scheme, host and port. It is bounded: beyond its size the
// least recently used one without open calls goes; if all are busy, a newcomer gets one that is not kept.
type hostTable struct {
	core  *core
	rules *guard

	mu      sync.Mutex
	size    int
	recipes int // how often the recipe has changed
	places  map[tableKey]*tablePlace
	recency list.List // of *tablePlace, most recent first
}

type tableKey struct {
	scheme string
	host   hostPort
}

// A tablePlace is a cluster's place in the table.
type tablePlace struct {
	table   *hostTable
	key     tableKey
	cluster *cluster
	open    int           // attempts that use it
	recency *list.Element // nil: not kept
}

func newHostTable(k *core, rules *guard, size int) *hostTable {
	return &hostTable{core: k, rules: rules, size: size, places: make(map[tableKey]*tablePlace)}
}

// acquire returns the place of a host, made if need be. The caller must release it.
func (t *hostTable) acquire(scheme string, host hostPort) (*tablePlace, error) {
	key := tableKey{scheme, host}
	for {
		p, recipes := t.take(key)
		if p != nil {
			return p, nil
		}
		cl, err := t.newCluster(key) // not under the lock: it asks the user's Proxy
		if err != nil {
			return nil, err
		}
		p, superfluous := t.put(key, cl, recipes)
		for _, s := range superfluous {
			s.end()
		}
		if p != nil {
			return p, nil
		}
	}
}

// newCluster makes the cluster of one host.
func (t *hostTable) newCluster(key tableKey) (*cluster, error) {
	spots := t.spots(key)
	proxy, err := proxyFor(t.core.client.proxy, key.scheme, key.host)
	if err != nil {
		return nil, err
	}
	spots[balance.Primary][0].proxy = proxy
	r := t.core.recipe.Load()
	cl := newCluster(t.core, r)
	cl.place(r, spots)
	return cl, nil
}

// spots is where a host is to be found.
func (t *hostTable) spots(key tableKey) [2][]spot {
	name := key.scheme + "://" + key.host.String()
	return [2][]spot{{{scheme: key.scheme, target: key.host, name: name, guard: t.rules}}}
}

// take returns a known host's place; nil if it is not known. It also says which recipe the table is at.
func (t *hostTable) take(key tableKey) (*tablePlace, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[key]
	if p != nil {
		p.open++
		t.recency.MoveToFront(p.recency)
	}
	return p, t.recipes
}

// put enters a new cluster, unless somebody else was faster, and returns the place to use and the clusters that have to go. Where
// the recipe has changed meanwhile there is none to use, and the cluster has to be made again.
func (t *hostTable) put(key tableKey, made *cluster, recipes int) (use *tablePlace, superfluous []*cluster) {
	if p, _ := t.take(key); p != nil {
		return p, []*cluster{made}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recipes != recipes {
		return nil, []*cluster{made}
	}
	p := &tablePlace{table: t, key: key, cluster: made, open: 1}
	made.held = p
	superfluous = t.shrinkLocked(t.size - 1)
	if len(t.places) < t.size && t.places[key] == nil {
		t.places[key] = p
		p.recency = t.recency.PushFront(p)
	}
	return p, superfluous
}

// shrinkLocked takes the least recently used clusters without open calls out of the table, until it has no more than size.
func (t *hostTable) shrinkLocked(size int) (superfluous []*cluster) {
	for e := t.recency.Back(); e != nil && len(t.places) > size; {
		p := e.Value.(*tablePlace)
		e = e.Prev()
		if p.open == 0 {
			t.forgetLocked(p)
			superfluous = append(superfluous, p.cluster)
		}
	}
	return superfluous
}

func (t *hostTable) forgetLocked(p *tablePlace) {
	t.recency.Remove(p.recency)
	p.recency = nil
	delete(t.places, p.key)
}

// release ends one attempt's use.
func (p *tablePlace) release() {
	p.table.mu.Lock()
	p.open--
	gone := p.open == 0 && p.recency == nil
	p.table.mu.Unlock()
	if gone {
		p.cluster.end()
	}
}

// reload makes all clusters fit another recipe, and the table another size.
func (t *hostTable) reload(r *recipe, size int) {
	t.mu.Lock()
	t.size = size
	t.recipes++
	superfluous := t.shrinkLocked(t.size) // those that are busy go later
	t.mu.Unlock()
	for _, cl := range superfluous {
		cl.end()
	}
	for _, cl := range t.all() {
		cl.place(r, t.spots(cl.held.key))
	}
}

// end lets go of all hosts: the upstream has got base URLs.
func (t *hostTable) end() {
	t.mu.Lock()
	t.size = 0
	var all []*cluster
	for _, p := range t.places {
		all = append(all, p.cluster)
		t.forgetLocked(p)
	}
	t.mu.Unlock()
	for _, cl := range all {
		cl.end()
	}
}

// all returns the clusters in the table, most recent first.
func (t *hostTable) all() []*cluster {
	t.mu.Lock()
	defer t.mu.Unlock()
	clusters := make([]*cluster, 0, len(t.places))
	for e := t.recency.Front(); e != nil; e = e.Next() {
		clusters = append(clusters, e.Value.(*tablePlace).cluster)
	}
	return clusters
}
