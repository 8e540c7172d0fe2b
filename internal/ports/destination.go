package ports

import (
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

const (
	warnEvery      = time.Minute
	noPortFor      = time.Second     // no connect after the kernel had no port
	answeredLately = 5 * time.Minute // so long a success makes a silence suspicious
	forever        = time.Duration(math.MaxInt64)
)

// A destination is one IP address and port, and what is held there. All but scarce and requests is guarded by the ledger's
// lock; time is an argument.
type destination struct {
	addr     netip.AddrPort // zero: all that are not told apart
	met      []*Policy
	accounts []account
	born     time.Duration
	last     time.Duration // dial

	dialing, open int
	dialed        uint64
	dials, ends   rate
	answered      time.Duration // last success; 0: none

	blocked time.Duration // until then the kernel has no port
	cause   error         // its word
	warned  time.Duration // no warning before

	refused, noPort, suspected uint64

	requests atomic.Uint64 // carried by connections that are closed
	scarce   atomic.Int64  // until then more is held than a rule allows without a word
}

// An account is a destination as one rule sees it.
type account struct {
	rule  Rule
	limit int // ports that may be held
	quiet int // ports that may be held without a word
	cool  cooling
	freed rate
	mean  time.Duration // hold of the connections that ended lately, smoothed
}

// meet adds the rules of a policy that this destination has not met. It takes the place of those that had no policy left.
func (d *destination) meet(p *Policy) {
	if p == nil || slices.Contains(d.met, p) {
		return
	}
	d.met = append(d.met, p)
	for _, r := range p.Rules {
		if r.Scope.Covers(d.addr.Addr()) && !slices.ContainsFunc(d.accounts, func(a account) bool { return a.rule == r }) {
			d.accounts = append(d.accounts, d.account(r))
		}
	}
	if len(d.met) == 1 {
		d.prune()
	}
}

// account begins the account of a rule. What the same keeper holds already, under a rule with another budget, it goes on holding.
func (d *destination) account(r Rule) account {
	a := account{cool: newCooling(r.Holds.Longest()), mean: r.Holds.Ours}
	for _, other := range d.accounts {
		if o := other.rule; o.Name == r.Name && o.Scope == r.Scope && o.Holds == r.Holds {
			a = other
		}
	}
	a.rule, a.limit, a.quiet = r, r.admitAt(), r.warnAt()
	return a
}

// leave forgets a policy, and the rules that no other one has. The last rules stay as long as nothing takes their place: the
// connections made under them may still be open.
func (d *destination) leave(p *Policy) {
	i := slices.Index(d.met, p)
	if i < 0 {
		return
	}
	d.met = slices.Delete(d.met, i, i+1)
	if len(d.met) > 0 {
		d.prune()
	}
}

// prune drops the rules that no policy has.
func (d *destination) prune() {
	d.accounts = slices.DeleteFunc(d.accounts, func(a account) bool {
		return !slices.ContainsFunc(d.met, func(p *Policy) bool { return slices.Contains(p.Rules, a.rule) })
	})
	d.measure()
}

// expire lets all accounts go of what has come free.
func (d *destination) expire(now time.Duration) {
	for i := range d.accounts {
		a := &d.accounts[i]
		a.cool.expire(now, a.freed.add)
	}
}

func (d *destination) heldBy(a *account) int { return d.dialing + d.open + a.cool.sum }

// admit counts a connect that is about to begin, or says why it must not.
func (d *destination) admit(now time.Duration) *Error {
	d.expire(now)
	if e := d.shortage(now); e != nil {
		d.refused++
		return e
	}
	d.dialing++
	d.dialed++
	d.dials.add(now, 1)
	d.last = now
	d.measure()
	return nil
}

// shortage is why there is no port; nil: there is one. Of several rules that have none it is the one that takes longest.
func (d *destination) shortage(now time.Duration) (worst *Error) {
	if now < d.blocked {
		return d.noPortError(now)
	}
	for i := range d.accounts {
		a := &d.accounts[i]
		over := d.heldBy(a) + 1 - a.limit
		if over <= 0 || a.rule.Advise {
			continue
		}
		e := &Error{Dest: d.addr, Held: d.heldBy(a), Budget: a.rule.Budget, Preset: a.rule.Name}
		if at, ok := a.cool.until(over); ok {
			e.RetryAfter, e.Cooling = max(at-now, 1), true
		}
		if worst == nil || worst.RetryAfter > 0 && (e.RetryAfter == 0 || e.RetryAfter > worst.RetryAfter) {
			worst = e
		}
	}
	return worst
}

// exhausted notes that the kernel had no port.
func (d *destination) exhausted(now time.Duration, cause error) *Error {
	d.expire(now)
	d.noPort++
	d.blocked, d.cause = now+noPortFor, cause
	return d.noPortError(now)
}

func (d *destination) noPortError(now time.Duration) *Error {
	e := &Error{Dest: d.addr, Held: d.dialing + d.open, RetryAfter: d.blocked - now, Cause: d.cause}
	if a := d.kernel(); a != nil {
		e.Held, e.Budget, e.Preset, e.Cooling = d.heldBy(a), a.rule.Budget, a.rule.Name, a.cool.sum > 0
	}
	return e
}

// kernel is the account of the kernel's own ports, else the tightest.
func (d *destination) kernel() *account {
	for i := range d.accounts {
		if d.accounts[i].rule.Name == Linux {
			return &d.accounts[i]
		}
	}
	return d.tightest()
}

// tightest is the account that will refuse first; nil: there is no rule.
func (d *destination) tightest() (tightest *account) {
	part := func(a *account) float64 { return float64(d.heldBy(a)) / float64(a.limit) }
	for i := range d.accounts {
		if a := &d.accounts[i]; tightest == nil || part(a) > part(tightest) {
			tightest = a
		}
	}
	return tightest
}

// opened turns a connect into a connection.
func (d *destination) opened(now time.Duration) {
	d.dialing--
	d.open++
	d.answered = max(now, 1)
}

// failed ends a connect that brought nothing.
func (d *destination) failed(now time.Duration, e Ending, timeout bool) {
	d.expire(now)
	if timeout && d.answered > 0 && now-d.answered <= answeredLately && d.short() {
		d.suspected++ // the NAT may have dropped the SYN, for others use it too
	}
	d.dialing--
	d.release(now, e)
}

// closed ends a connection.
func (d *destination) closed(now time.Duration, e Ending) {
	d.expire(now)
	d.open--
	d.release(now, e)
}

// release gives a port back, or to the rules that keep it.
func (d *destination) release(now time.Duration, e Ending) {
	d.ends.add(now, 1)
	for i := range d.accounts {
		a := &d.accounts[i]
		hold := a.rule.Holds.after(e)
		if e != Unsent {
			a.mean += (hold - a.mean) / 16
		}
		if hold > 0 {
			a.cool.add(now, hold)
		} else {
			a.freed.add(now, 1)
		}
	}
	d.measure()
}

// short reports whether more is held than a rule allows without a word.
func (d *destination) short() bool {
	for i := range d.accounts {
		if a := &d.accounts[i]; d.heldBy(a) > a.quiet {
			return true
		}
	}
	return false
}

// measure notes until when that will last, for those who ask without the lock.
func (d *destination) measure() {
	until := time.Duration(0)
	for i := range d.accounts {
		a := &d.accounts[i]
		over := d.heldBy(a) - a.quiet
		if over <= 0 {
			continue
		}
		at, ok := a.cool.until(over)
		if !ok {
			at = forever
		}
		until = max(until, at)
	}
	if int64(until) != d.scarce.Load() {
		d.scarce.Store(int64(until))
	}
}

// warning is the word that is due, if one is.
func (d *destination) warning(now time.Duration, refused bool) *Warning {
	if now < d.warned || !refused && (d.scarce.Load() == 0 || !d.short()) {
		return nil
	}
	a := d.tightest()
	if a == nil {
		return nil
	}
	d.warned = now + warnEvery
	return &Warning{
		Dest: d.addr, Held: d.heldBy(a), Budget: a.rule.Budget, Preset: a.rule.Name,
		Forecast: d.forecast(a, now), Refused: refused,
	}
}

// forecast is what the last minute leads to, or the last seconds where they are worse. The open connections stay, and each one that
// ends keeps its port for a while: held tends to open + rate*hold. It is the ends that count, not the dials, since those of a
// pool that grows to its size are no rate.
func (d *destination) forecast(a *account, now time.Duration) Forecast {
	window := int64(minute)
	ends := d.ends.perSecond(now, d.born, window)
	if more := d.ends.perSecond(now, d.born, lately); more > ends {
		ends, window = more, lately
	}
	f := Forecast{Steady: float64(d.open+d.dialing) + ends*a.mean.Seconds()}
	room := a.limit - d.heldBy(a)
	growth := d.dials.perSecond(now, d.born, window) - a.freed.perSecond(now, d.born, window)
	switch {
	case room <= 0:
		f.Growing = true
	case f.Steady > float64(a.limit) && growth > 0:
		f.Growing = true
		f.Left = time.Duration(float64(room) / growth * float64(time.Second))
	}
	return f
}

// idle reports whether nothing is held, so that the destination may be forgotten.
func (d *destination) idle(now time.Duration) bool {
	d.expire(now)
	for i := range d.accounts {
		if d.accounts[i].cool.sum > 0 {
			return false
		}
	}
	return d.open == 0 && d.dialing == 0
}
