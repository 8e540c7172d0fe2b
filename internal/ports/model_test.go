package ports_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// Against a plain list of release times: held is never less than it should be, and at most what a sixtieth of the hold adds.
func TestTheRingAgainstAPlainList(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(b book) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			hold := time.Duration(1+rnd.IntN(300)) * time.Second
			p := &ports.Policy{Rules: []ports.Rule{{
				Name: "nat", Budget: 1 << 20, Warn: 0.7, Admit: 0.9,
				Holds: ports.Holds{Ours: hold, Theirs: hold / 3, Reset: hold / 7},
			}}}
			var open []*ports.Ticket
			var ends []time.Time
			for range 400 {
				switch rnd.IntN(3) {
				case 0:
					open = append(open, b.opens(1+rnd.IntN(5), api, p)...)
				case 1:
					if len(open) == 0 {
						continue
					}
					how := []ports.Ending{ports.ClosedByUs, ports.ClosedByPeer, ports.Reset}[rnd.IntN(3)]
					open[0].Closed(how, time.Now())
					open = open[1:]
					ends = append(ends, time.Now().Add([]time.Duration{hold, hold / 3, 0, hold / 7}[[...]int{0, 1, 3}[how]]))
				case 2:
					time.Sleep(time.Duration(rnd.Int64N(int64(hold / 4))))
				}
				least, most := len(open), len(open)
				for _, end := range ends {
					if time.Now().Before(end) {
						least++
					}
					if time.Now().Before(end.Add(hold/60 + time.Second/60 + 1)) {
						most++
					}
				}
				if s := b.of(api); len(ends)+len(open) > 0 && (s.Held < least || s.Held > most) {
					t.Fatalf("seed %d, hold %v: held %d, want %d to %d", seed, hold, s.Held, least, most)
				}
			}
		})
	}
}
