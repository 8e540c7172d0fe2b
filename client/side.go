package client

import (
	"fmt"
	"os"
)

// Side says from where a call is made: inside the private network, or from elsewhere. It chooses between the internal and
// the external base URLs of an upstream. Field report 1 is what happens without it: code shared by browser and server
// used the public address on both, 150 ms away instead of 3.
//
// The first that speaks decides: the call's context ([WithCall]), Config.Side, SORTIE_SIDE, the presence of
// KUBERNETES_SERVICE_HOST, else External.
type Side uint8

const (
	AutoSide Side = iota // not decided here
	Internal             // inside
	External             // outside
)

// String returns "auto", "internal" or "external".
func (s Side) String() string {
	switch s {
	case AutoSide:
		return "auto"
	case Internal:
		return "internal"
	case External:
		return "external"
	}
	return fmt.Sprintf("side(%d)", uint8(s))
}

// Names of the environment variables that New reads for the side.
const (
	sideVariable       = "SORTIE_SIDE"
	kubernetesVariable = "KUBERNETES_SERVICE_HOST"
)

// detectSide returns the side for calls that do not say otherwise, and what decided it.
func detectSide(configured Side, m *mistakes) (side Side, from string) {
	if configured != AutoSide {
		return configured, "Config.Side"
	}
	if text, ok := os.LookupEnv(sideVariable); ok {
		switch text {
		case "internal":
			return Internal, sideVariable
		case "external":
			return External, sideVariable
		}
		m.addf(sideVariable, `%q is no side; set "internal" or "external", or unset it`, text)
	}
	if os.Getenv(kubernetesVariable) != "" {
		return Internal, kubernetesVariable
	}
	return External, "default"
}
