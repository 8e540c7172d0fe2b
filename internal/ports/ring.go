package ports

import "time"

// Times in this package are durations since the ledger began: a monotonic clock is read faster than a wall clock.

const (
	cells     = 64 // of a cooling; a power of two
	holdCells = 60 // of those, one hold
)

// cooling counts ports that are kept, by the time when each comes free. A port counts as free at the end of its cell, never
// earlier than it is and at most a sixtieth of the hold later.
type cooling struct {
	width time.Duration
	first int64         // number of the oldest cell that may hold something
	next  time.Duration // when that cell is over
	cell  [cells]uint32
	sum   int
}

func newCooling(hold time.Duration) cooling {
	return cooling{width: max((hold+holdCells-1)/holdCells, 1)}
}

// add keeps a port until now+hold; hold is not longer than that of newCooling. expire must have been called with now.
func (c *cooling) add(now, hold time.Duration) {
	c.cell[int64((now+hold)/c.width)%cells]++
	c.sum++
}

// expire lets go of what has come free by now, and tells of each cell when and how many.
func (c *cooling) expire(now time.Duration, freed func(at time.Duration, n uint32)) {
	if now < c.next {
		return
	}
	current := int64(now / c.width)
	for ; c.sum > 0 && c.first < current; c.first++ {
		cell := &c.cell[c.first%cells]
		if *cell > 0 {
			c.sum -= int(*cell)
			freed(time.Duration(c.first+1)*c.width, *cell)
			*cell = 0
		}
	}
	c.first = max(c.first, current)
	c.next = time.Duration(c.first+1) * c.width
}

// until is when n ports will have come free, if none is added; false: there are not so many. expire must have been called.
func (c *cooling) until(n int) (at time.Duration, ok bool) {
	if n > c.sum {
		return 0, false
	}
	for k := c.first; ; k++ {
		if n -= int(c.cell[k%cells]); n <= 0 {
			return time.Duration(k+1) * c.width, true
		}
	}
}

const (
	rateCells = 16 // a power of two, more than a minute's
	rateWidth = 4 * time.Second
	minute    = 15 // cells
	lately    = 4  // cells: a rate that has changed shows here first

	// Younger destinations are taken to be so old: the burst in which a process begins is no rate.
	rateFloor = 10 * time.Second
)

// rate counts events over the last minute.
type rate struct {
	cell [rateCells]uint32
	last int64 // number of the newest cell
}

// add counts n events at a time, which may lie a little back.
func (r *rate) add(at time.Duration, n uint32) {
	k := int64(at / rateWidth)
	r.advance(k)
	if k > r.last-rateCells {
		r.cell[k%rateCells] += n
	}
}

func (r *rate) advance(k int64) {
	if k-r.last >= rateCells {
		r.cell, r.last = [rateCells]uint32{}, k
		return
	}
	for r.last < k {
		r.last++
		r.cell[r.last%rateCells] = 0
	}
}

// perSecond is the rate at now, over the last minute or the last few cells, of what has been counted since born.
func (r *rate) perSecond(now, born time.Duration, cells int64) float64 {
	r.advance(int64(now / rateWidth))
	sum := uint32(0)
	for k := r.last; k > r.last-cells; k-- {
		sum += r.cell[(k+rateCells)%rateCells]
	}
	span := now - time.Duration(r.last-cells+1)*rateWidth // the newest cell is not over
	return float64(sum) / min(max(now-born, rateFloor), span).Seconds()
}
