package client

import (
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/breaker"
	"github.com/sortie-go/sortie/internal/budget"
	"github.com/sortie-go/sortie/internal/hedge"
	"github.com/sortie-go/sortie/internal/limit"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/internal/ports"
	"github.com/sortie-go/sortie/metrics"
)

// A core is what outlives the configurations of an upstream: its open calls, its endpoints with all that was learnt of them,
// and its accounts. An upstream is one configuration over it.
type core struct {
	client     *Client
	name       string
	meter      *metrics.Upstream // nil: nothing is measured
	unobserve  func()
	calls      callList
	headerTime headerTime

	recipe          atomic.Pointer[recipe]
	inside, outside guard // of internal and external endpoints
	places          atomic.Pointer[places]
	retired         retired

	// Made by the first configuration that needs them and changed in place by later ones. Guarded by Client.reloading.
	slots  *limit.Limit
	tokens *budget.Budget
	hedges *hedge.Hedge
}

// places is where the calls of an upstream go: to its bases, or to the hosts they name. It is immutable.
type places struct {
	cluster *cluster   // of the bases
	hosts   *hostTable // instead, where there are none
}

// clusters returns all clusters there are now.
func (p *places) clusters() []*cluster {
	if p.hosts != nil {
		return p.hosts.all()
	}
	return []*cluster{p.cluster}
}

// A recipe says what the endpoints of an upstream are made of. It is immutable, and so are its parts: what a Reload leaves as
// it was is the same pointer in the next recipe.
type recipe struct {
	kit        *kit
	breaker    *breaker.Config // nil: everything is admitted
	balance    balance.Config
	balanced   bool     // an endpoint for each address
	exactHosts []string // that the configuration names, without their ports
}

// A kit is what connections depend on: an endpoint with another kit needs a pool of its own.
type kit struct {
	conns      Conns
	serverName string
	transport  http.RoundTripper // nil: the client's own pools
	wires      *pool.Transport   // nil with transport
	ports      *ports.Policy     // nil with transport
}

// newCore returns a core without endpoints, whose state is observed from now on.
func newCore(c *Client, name string) *core {
	k := &core{client: c, name: name, meter: c.metrics.Upstream(name)}
	k.unobserve = k.observeState()
	return k
}

// current is the upstream of the configuration in force; nil: it is not in force yet, or not any more.
func (k *core) current() *upstream {
	s := k.client.setup.Load()
	if s == nil {
		return nil
	}
	for _, up := range s.all() {
		if up.core == k {
			return up
		}
	}
	return nil
}

// configure changes the accounts to what a validated configuration says, and returns the upstream of it.
func (k *core) configure(cfg Upstream, bases parsedBases) *upstream {
	up := &upstream{
		core: k, preserveHost: cfg.PreserveHost, policy: cfg.Policy.clone(), bases: bases,
		timeout: cfg.Policy.Timeout.withDefaults(), retry: cfg.Policy.Retry.compile(), signer: cfg.Signer,
	}
	now := time.Now()
	up.limit = k.limitAs(cfg.Policy.Limit, up.timeout)
	up.hedge = k.hedgeAs(cfg.Policy.Hedge, now)
	if _, observes := cfg.Signer.(observer); observes || up.retry != nil || up.hedge != nil {
		up.budget = k.budgetAs(cfg.Policy.Budget, now)
	}
	for _, text := range cfg.Hosts {
		if pattern, _ := parsePattern(text); !pattern.wildcard && up.exactHost == "" { // validated
			up.exactHost = text
		}
	}
	up.send = pipeline(up)
	return up
}

// limitAs puts a limit in force. One that is switched off keeps its slots for those who hold them, and lets those who wait go on.
func (k *core) limitAs(policy *Limit, timeout Timeout) *limitPolicy {
	switch {
	case policy == nil && k.slots == nil:
		return nil
	case policy == nil:
		k.slots.Configure(limit.Config{Max: unlimited})
		return nil
	case k.slots == nil:
		k.slots = limit.New(policy.engine(timeout))
	default:
		k.slots.Configure(policy.engine(timeout))
	}
	return &limitPolicy{k.slots, orDefault(policy.QueueWait, time.Second)}
}

// unlimited is more calls than there can be.
const unlimited = 1 << 30

func (k *core) hedgeAs(policy *Hedge, now time.Time) *hedgePolicy {
	switch {
	case policy == nil:
		return nil
	case k.hedges == nil:
		k.hedges = hedge.New(policy.engine(), now)
	default:
		k.hedges.Configure(policy.engine(), now)
	}
	return &hedgePolicy{k.hedges, policy.Shadow}
}

func (k *core) budgetAs(policy Budget, now time.Time) *budget.Budget {
	if k.tokens == nil {
		k.tokens = budget.New(policy.engine(), now)
	} else {
		k.tokens.Configure(policy.engine(), now)
	}
	return k.tokens
}

// settle puts a configuration's endpoints in force. Those that stay keep what was learnt of them, and their connections if
// these still depend on the same.
func (k *core) settle(cfg Upstream, bases parsedBases, g *Guard, maxHosts int) {
	narrower := k.setGuards(cfg, bases, g)
	r := k.newRecipe(cfg, narrower)
	k.recipe.Store(r)
	old := k.places.Load()
	spots := k.spotsOf(bases)
	switch {
	case len(spots[balance.Primary]) > 0:
		next := &places{cluster: newCluster(k, r)}
		if old != nil && old.hosts == nil {
			next.cluster = old.cluster
		}
		next.cluster.place(r, spots)
		k.places.Store(next)
	case old != nil && old.hosts != nil:
		old.hosts.reload(r, maxHosts)
		k.places.Store(&places{hosts: old.hosts}) // another value: who found nothing looks again
	default:
		rules := &k.inside // named by its Hosts, so it counts as internal
		if k.name == unlistedName {
			rules = &k.outside
		}
		k.places.Store(&places{hosts: newHostTable(k, rules, maxHosts)})
	}
	k.leave(old)
}

// leave ends places of the other kind: an upstream has got its first bases, or lost its last.
func (k *core) leave(old *places) {
	switch now := k.places.Load(); {
	case old == nil:
	case old.hosts != nil && now.hosts == nil:
		old.hosts.end()
	case old.hosts == nil && now.hosts != nil:
		old.cluster.end()
	}
}

// setGuards puts the rules for addresses in force, and reports whether an address that was permitted is not any more.
func (k *core) setGuards(cfg Upstream, bases parsedBases, g *Guard) (narrower bool) {
	named := namedAddrs(cfg.Hosts, bases)
	inside, outside := &guardRules{named: named}, &guardRules{named: named}
	if g != nil {
		outside.strict, outside.allow = true, slices.Clone(g.Allow)
	}
	narrower = k.inside.set(inside)
	return k.outside.set(outside) || narrower
}

// newRecipe returns the recipe of a configuration, with as much of the present one in it as has not changed.
func (k *core) newRecipe(cfg Upstream, narrower bool) *recipe {
	next := &kit{conns: cfg.Policy.Conns.orZero(), serverName: cfg.ServerName, transport: cfg.Transport}
	r := &recipe{kit: next, balance: cfg.Policy.balanceConfig(cfg.spill()), balanced: cfg.Policy.Balance != nil}
	for _, text := range cfg.Hosts {
		if p, _ := parsePattern(text); !p.wildcard { // validated
			r.exactHosts = append(r.exactHosts, p.host)
		}
	}
	if b := cfg.Policy.Breaker; b != nil {
		engine := b.engine(cfg.Policy.Timeout.withDefaults().Attempt, nil)
		r.breaker = &engine
	}
	old := k.recipe.Load()
	if old != nil && reflect.DeepEqual(old.breaker, r.breaker) {
		r.breaker = old.breaker
	}
	switch {
	case old != nil && !narrower && old.kit.same(next):
		r.kit = old.kit
	case next.transport == nil:
		next.wires = pool.NewTransport(next.conns.transportConfig(next.serverName))
		next.ports = next.conns.Ports.compile(k.client.system)
	}
	return r
}

// same reports whether connections made with either are as good as with the other. A tls.Config is compared by its address.
func (a *kit) same(b *kit) bool {
	ca, cb := a.conns, b.conns
	samePorts := ca.Ports.orZero() == cb.Ports.orZero()
	ca.Ports, cb.Ports = nil, nil
	return samePorts && ca == cb && a.serverName == b.serverName && sameTransport(a.transport, b.transport)
}

// sameTransport reports whether two are certainly one. Functions cannot be compared, so they never are.
func sameTransport(a, b http.RoundTripper) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	return va.Comparable() && vb.Comparable() && a == b
}

// spotsOf returns the spots of bases by tier. If only one list is given it is the primary tier for both sides.
func (k *core) spotsOf(bases parsedBases) (spots [2][]spot) {
	var tiers [][]spot
	for _, list := range []struct {
		bases []*base
		rules *guard
	}{{bases.internal, &k.inside}, {bases.external, &k.outside}} {
		var tier []spot
		for _, b := range list.bases {
			tier = append(tier, spot{scheme: b.url.Scheme, target: b.target, name: serverOf(b.url), base: b, guard: list.rules, proxy: b.proxy})
		}
		if len(tier) > 0 {
			tiers = append(tiers, tier)
		}
	}
	copy(spots[:], tiers)
	return spots
}

// endpoints returns the endpoints that may be used.
func (k *core) endpoints() (all []*endpoint) {
	for _, cl := range k.places.Load().clusters() {
		all = append(all, cl.endpoints()...)
	}
	return all
}

// quiet ends all that the endpoints do ahead.
func (k *core) quiet() {
	for _, ep := range k.endpoints() {
		ep.quiet()
	}
}

// closeIdle closes the connections that carry no call now.
func (k *core) closeIdle() {
	for _, ep := range k.endpoints() {
		if ep.pool != nil {
			ep.pool.CloseIdle()
		}
	}
}

// close ends what the upstream does by itself, and its connections.
func (k *core) close() {
	k.unobserve()
	for _, cl := range k.places.Load().clusters() {
		cl.close()
	}
	for _, ep := range k.retired.list() {
		ep.close()
	}
	k.client.ledger.Forget(k.recipe.Load().kit.ports)
}
