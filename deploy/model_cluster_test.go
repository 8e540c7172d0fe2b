package deploy_test

import "testing"

// startUp is how many seconds a new pod takes from being wanted to serving.
const startUp = 20

// A cluster is a Deployment under an autoscaler, second by second. Its load is shared evenly by the pods that serve.
type cluster struct {
	way      way
	interval int // of the scrapes
	offset   int // of the autoscaler's looks
	scaler   autoscaler
	load     func(now int) float64 // arrivals a second, of all pods

	pods []*pod
	made int
}

// newScaler takes target, bounds and behaviour from hpa.yaml, which scaledobject.yaml is held equal to.
func newScaler(t *testing.T, w way) autoscaler {
	t.Helper()
	h := loadAutoscaler(t)
	target, _ := scaling(t, h)
	return autoscaler{
		low: int(*h.Spec.MinReplicas), high: int(h.Spec.MaxReplicas), target: target, behavior: *h.Spec.Behavior,
		summed: w.summed, busy: 0.3,
	}
}

// resize starts pods, or ends the youngest. Scrapes of the pods are spread over the interval.
func (c *cluster) resize(now, replicas, delay int) {
	for len(c.pods) < replicas {
		c.pods = append(c.pods, newPod(now+delay, c.made*7%c.interval, c.way.window))
		c.made++
	}
	c.pods = c.pods[:replicas]
}

// serving returns how many pods serve.
func (c *cluster) serving(now int) (n int) {
	for _, p := range c.pods {
		if p.serves(now) {
			n++
		}
	}
	return n
}

// second lets a second pass.
func (c *cluster) second(now int) {
	for _, p := range c.pods {
		p.scrape(now, c.interval)
	}
	if now%syncPeriod == c.offset {
		c.resize(now, c.scaler.look(now, c.pods, c.way.query), startUp)
	}
	each := c.load(now) / float64(c.serving(now))
	for _, p := range c.pods {
		if p.serves(now) {
			p.arrive(now, each)
		}
	}
}
