package client

import "net/url"

// URL returns the public form of a reference to an upstream: ref, an escaped path and query as in an href, joined to the
// first base URL of the given side; without a base there, to https:// and the upstream's first exact host. It is for
// links in rendered pages, which browsers follow from outside. It does no I/O and asks nothing about health.
//
// An unknown upstream, or a ref that does not parse, gives "".
func (c *Client) URL(upstream string, side Side, ref string) string {
	for _, up := range c.setup.Load().upstreams {
		if up.name == upstream {
			return up.publicURL(orDefault(side, c.side), ref)
		}
	}
	return ""
}

func (up *upstream) publicURL(side Side, ref string) string {
	logical, err := url.Parse(ref)
	if err != nil || logical.Scheme != "" || logical.Host != "" || logical.Opaque != "" {
		return ""
	}
	bases := up.bases.external
	if side == Internal {
		bases = up.bases.internal
	}
	var at *base
	switch {
	case len(bases) > 0:
		at = bases[0]
	case up.exactHost != "":
		if at, err = parseBase("https://"+up.exactHost, side); err != nil {
			return ""
		}
	default:
		return ""
	}
	var public url.URL
	at.rewrite(&public, logical)
	return public.String()
}
