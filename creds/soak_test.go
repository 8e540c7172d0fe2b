package creds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

// Whatever a source does, and services and clocks with it, some things always hold.
func TestInvariantsUnderRandomTrouble(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 1))
			life := time.Duration(1+draw.IntN(60)) * time.Minute
			src := &source{life: life}
			choices := rand.New(rand.NewPCG(seed, 2))
			src.answer = func(ctx context.Context, _ int) (aws.Credentials, error) {
				if err := pause(ctx, time.Duration(choices.IntN(400))*time.Millisecond); err != nil {
					return aws.Credentials{}, err
				}
				switch choices.IntN(10) {
				case 0, 1:
					return aws.Credentials{}, errSource
				case 2:
					return aws.Credentials{}, refused{}
				case 3:
					return key(0, time.Unix(0, 0)), nil
				case 4:
					if same, ok := src.again(); ok {
						return same, nil
					}
				case 5:
					return aws.Credentials{}, pause(ctx, time.Hour)
				}
				return src.fresh(), nil
			}
			story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) { trouble(t, draw, src, c, life) })
		})
	}
}

// trouble reads, rejects and steps the clock for some lives, in a bubble.
func trouble(t *testing.T, draw *rand.Rand, src *source, c *creds.Cache, life time.Duration) {
	var ahead time.Duration // of the wall clock
	for range 400 {
		time.Sleep(time.Duration(draw.Int64N(int64(life / 20))))
		before := c.Stats()
		start := time.Now()
		v, err := c.Retrieve(t.Context())
		took := time.Since(start)
		switch {
		case err == nil && !v.Expires.After(time.Now().Add(ahead)):
			t.Fatalf("expired credentials: %v left, clock %v ahead", time.Until(v.Expires), ahead)
		case took > 5*time.Second+400*time.Millisecond:
			t.Fatalf("a read took %v", took)
		case (before.State == "valid" || before.State == "soft") && !before.Rejected && took != 0:
			t.Fatalf("a read of %s credentials took %v", before.State, took)
		case before.State == "hard" && !before.Rejected && took > 250*time.Millisecond && before.Left > took:
			t.Fatalf("a read of credentials with %v left took %v", before.Left, took)
		}
		if err != nil {
			_, fetch := errors.AsType[*creds.FetchError](err)
			_, expired := errors.AsType[*creds.ExpiredError](err)
			if !fetch && !expired && err != (refused{}) {
				t.Fatalf("an error of type %T", err)
			}
		}
		switch draw.IntN(20) {
		case 0:
			c.InvalidateIf(v.AccessKeyID, "trouble")
		case 1:
			step := time.Duration(draw.Int64N(int64(life))) - life/2
			ahead += step
			c.StepWall(step)
		}
	}
	asked := src.times()
	for i := 1; i < len(asked); i++ {
		if gap := asked[i].Sub(asked[i-1]); gap < 20*time.Millisecond {
			t.Errorf("questions %v apart", gap)
		}
	}
	if src.most > 1 {
		t.Errorf("%d questions at once", src.most)
	}
	if n, span := len(asked), asked[len(asked)-1].Sub(asked[0]); float64(n) > 60*span.Minutes() {
		t.Errorf("%d questions in %v", n, span)
	}
}
