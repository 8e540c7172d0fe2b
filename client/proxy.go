package client

import (
	"fmt"
	"net/http"
	"net/url"
)

// proxyFor asks Config.Proxy about an endpoint. Its error does not show the proxy's URL, which may hold a password.
func proxyFor(proxy func(*http.Request) (*url.URL, error), scheme string, target hostPort) (*url.URL, error) {
	if proxy == nil {
		return nil, nil
	}
	u := &url.URL{Scheme: scheme, Host: target.String(), Path: "/"}
	p, err := proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
	if err != nil {
		return nil, fmt.Errorf("choosing a proxy: %w", withoutURL(err))
	}
	return p, nil
}
