//go:build !linux

package sortietest

import "errors"

// fill would make connects hang. Other systems answer a SYN to a full accept queue, or are not tried.
func (g *gate) fill() error { return errors.ErrUnsupported }

func (g *gate) drain() error { return nil }
