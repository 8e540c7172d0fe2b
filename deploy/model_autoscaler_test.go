package deploy_test

import (
	"math"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// An autoscaler is the arithmetic of Kubernetes' controller, package podautoscaler of kube-controller-manager. Its numbers
// come from a manifest.
type autoscaler struct {
	low, high int
	target    float64
	behavior  autoscaling.HorizontalPodAutoscalerBehavior
	summed    bool    // one number for all pods, as KEDA gives it, instead of one per pod
	busy      float64 // CPU in use, as a share of its target

	wishes []wish
	steps  []step
}

// A wish is what the metrics asked for at a time; a step is what was done.
type (
	wish struct{ at, replicas int }
	step struct{ at, change int }
)

// syncPeriod is how often the controller looks, by its default.
const syncPeriod = 15

// look returns the number of replicas that there should be from now on.
func (a *autoscaler) look(now int, pods []*pod, q query) int {
	current := len(pods)
	desired := max(a.byArrivals(now, pods, q), a.byCPU(now, pods))
	desired = a.stabilize(now, current, desired)
	desired = a.limit(now, current, desired)
	if desired != current {
		a.steps = append(a.steps, step{now, desired - current})
	}
	return desired
}

func within(ratio float64) bool { return 1-tolerance <= ratio && ratio <= 1+tolerance }

// byArrivals is calcPlainMetricReplicas for a metric per pod. A pod that serves and has no value counts as 0 when that
// keeps replicas from growing too far, and as the target when that keeps them from shrinking too far.
func (a *autoscaler) byArrivals(now int, pods []*pod, q query) int {
	var sum float64
	known, missing, starting := 0, 0, 0
	for _, p := range pods {
		switch v := q(p.samples, now); {
		case !p.serves(now):
			starting++
		case v.known:
			known++
			sum += v.value
		default:
			missing++
		}
	}
	current := len(pods)
	if known == 0 {
		return current
	}
	if a.summed {
		return a.byTotal(sum, current)
	}
	ratio := sum / float64(known) / a.target
	if missing == 0 && (starting == 0 || ratio <= 1) {
		if within(ratio) {
			return current
		}
		return ceil(ratio * float64(known))
	}
	counted := known + missing
	if ratio < 1 {
		sum += a.target * float64(missing)
	} else {
		counted += starting
	}
	again := sum / float64(counted) / a.target
	wanted := ceil(again * float64(counted))
	if within(again) || (ratio < 1) != (again < 1) || (again < 1) != (wanted < current) {
		return current
	}
	return wanted
}

// byTotal is GetExternalPerPodMetricReplicas.
func (a *autoscaler) byTotal(sum float64, current int) int {
	if within(sum / (a.target * float64(current))) {
		return current
	}
	return ceil(sum / a.target)
}

// byCPU is the wish of the second metric; in the field report, as in these runs, it said nothing.
func (a *autoscaler) byCPU(now int, pods []*pod) int {
	serving := 0
	for _, p := range pods {
		if p.serves(now) {
			serving++
		}
	}
	return ceil(a.busy * float64(serving))
}

// ceil forgives what floating point adds to a whole number.
func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }

// stabilize takes the lowest wish of the window before it grows and the highest before it shrinks.
func (a *autoscaler) stabilize(now, current, desired int) int {
	a.wishes = append(a.wishes, wish{now, desired})
	up, down := desired, desired
	for _, w := range a.wishes {
		if w.at > now-window(a.behavior.ScaleUp) {
			up = min(up, w.replicas)
		}
		if w.at > now-window(a.behavior.ScaleDown) {
			down = max(down, w.replicas)
		}
	}
	return min(max(current, up), down)
}

func window(r *autoscaling.HPAScalingRules) int { return int(*r.StabilizationWindowSeconds) }

// limit holds a step against the policies, of which the most generous counts, and the replicas against their bounds.
func (a *autoscaler) limit(now, current, desired int) int {
	allowed := current
	switch {
	case desired > current:
		for _, p := range a.behavior.ScaleUp.Policies {
			allowed = max(allowed, reach(p, current-a.changed(now-int(p.PeriodSeconds)), 1))
		}
		desired = min(desired, allowed)
	case desired < current:
		for _, p := range a.behavior.ScaleDown.Policies {
			allowed = min(allowed, reach(p, current-a.changed(now-int(p.PeriodSeconds)), -1))
		}
		desired = max(desired, allowed)
	}
	return min(max(desired, a.low), a.high)
}

// changed returns by how much the replicas have changed since a time.
func (a *autoscaler) changed(since int) (sum int) {
	for _, s := range a.steps {
		if s.at > since {
			sum += s.change
		}
	}
	return sum
}

// reach returns how far a policy lets replicas go from those at the beginning of its period.
func reach(p autoscaling.HPAScalingPolicy, begun, sign int) int {
	if p.Type == autoscaling.PodsScalingPolicy {
		return begun + sign*int(p.Value)
	}
	exact := float64(begun) * (1 + float64(sign)*float64(p.Value)/100)
	if sign > 0 {
		return ceil(exact)
	}
	return int(exact)
}
