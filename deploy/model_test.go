package deploy_test

import (
	"math"
	"slices"
	"testing"
)

// An average that only moves on traffic would keep its last value in silence, and the pods with it.
func TestGaugeDecaysByTheClock(t *testing.T) {
	g := gauge{window: 30}
	for now := range 60 {
		g.add(now, 26)
	}
	for silent := range 40 {
		want := 26 * float64(max(30-silent, 0)) / 30
		if got, known := g.read(60 + silent); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%d s of silence: %v %v, want %v", silent, got, known, want)
		}
	}
}

func TestYoungGaugeIsUnknownNotZero_kubernetes105187(t *testing.T) {
	g := gauge{window: 30, born: 100}
	if v, known := g.read(100); known {
		t.Errorf("in its first second: %v", v)
	}
	g.add(100, 8)
	if v, known := g.read(101); !known || v != 8 {
		t.Errorf("after a second with 8 arrivals: %v %v", v, known)
	}
}

func TestRateOfASteadyCounterIsExact(t *testing.T) {
	for offset := range 15 {
		p := newPod(0, offset, 30)
		for now := range 300 {
			p.scrape(now, 15)
			v := rateOver(60)(p.samples, now)
			if len(p.samples) < 2 && v.known {
				t.Fatalf("offset %d, %d s: %v from %d samples", offset, now, v.value, len(p.samples))
			}
			if now > 90 && (!v.known || math.Abs(v.value-13) > 1e-9) {
				t.Fatalf("offset %d, %d s: %v %v, want 13", offset, now, v.value, v.known)
			}
			p.arrive(now, 13)
		}
	}
}

// podsWith returns pods that serve and show these values; a negative one is not known.
func podsWith(values ...float64) (pods []*pod) {
	for _, v := range values {
		pods = append(pods, &pod{samples: []sample{{gauge: v, gaugeIsKnown: v >= 0}}})
	}
	return pods
}

// starting adds pods that do not serve yet.
func starting(n int, pods []*pod) []*pod {
	for range n {
		pods = append(pods, &pod{ready: 99})
	}
	return pods
}

func TestAutoscalerArithmetic(t *testing.T) {
	for _, c := range []struct {
		what string
		pods []*pod
		busy float64
		want int
	}{
		{"below the upper edge of the tolerance nothing happens", podsWith(14.2, 14.2, 14.2, 14.2), 0, 4},
		{"beyond it something does", podsWith(14.4, 14.4, 14.4, 14.4), 0, 5},
		{"above the lower edge nothing happens", podsWith(11.8, 11.8, 11.8, 11.8), 0, 4},
		{"below it something does", podsWith(9, 9, 9, 9), 0, 3},
		{"the mean decides", podsWith(26, 26, 0, 0), 0, 4},
		{"a pod without a value counts as 0 when there should be more", podsWith(18, 18, 18, -1), 0, 4},
		{"and as the target when there should be fewer", podsWith(1, 1, -1, -1), 0, 3},
		{"unknown is not zero: without any value nothing happens", podsWith(-1, -1, -1), 0, 3},
		{"the largest wish wins", podsWith(13, 13, 13), 2, 6},
		{"and so do pods that start: what is on its way may be enough", starting(2, podsWith(slices.Repeat([]float64{15}, 20)...)), 0, 22},
	} {
		a := newScaler(t, byGauge)
		a.low, a.high, a.busy = 1, 100, c.busy
		a.behavior.ScaleDown.StabilizationWindowSeconds = new(int32)
		a.behavior.ScaleDown.Policies[0].Value = 100
		if got := a.look(0, c.pods, latestGauge); got != c.want {
			t.Errorf("%s: %d replicas, want %d", c.what, got, c.want)
		}
	}
}

func TestAutoscalerGrowsAndShrinksByItsPolicies(t *testing.T) {
	a := newScaler(t, byGauge)
	a.low = 1
	if got := a.look(0, podsWith(130, 130, 130), latestGauge); got != 6 {
		t.Errorf("ten times the target: %d replicas at once, want twice as many", got)
	}
	a = newScaler(t, byGauge)
	idle := podsWith(make([]float64, 60)...)
	for _, p := range idle {
		p.samples[0].at = 300
	}
	for now := 0; now < 300; now += syncPeriod {
		a.wishes = append(a.wishes, wish{now, 60})
	}
	if got := a.look(300, idle, latestGauge); got != 60 {
		t.Errorf("within five minutes of a wish for 60: %d replicas", got)
	}
	if got := a.look(585, idle, latestGauge); got != 54 {
		t.Errorf("after that: %d replicas, want 10 %% less", got)
	}
	if got := a.look(599, idle[:54], latestGauge); got != 54 {
		t.Errorf("in the same minute: %d replicas, want 54", got)
	}
}
