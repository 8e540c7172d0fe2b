package sortietest

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Metadata emulates the services that hand out AWS credentials: the metadata service of an EC2 instance (IMDSv2, and v1
// where tokens are optional), the container endpoint of ECS and EKS, and the operation AssumeRoleWithWebIdentity of STS.
// It is an [http.Handler]. [NewMetadata] starts one on the loopback interface:
//
//	md := sortietest.NewMetadata(t)
//	md.Setenv(t)
//	md.Outage(10*time.Minute, 4*time.Minute, sortietest.OnAll, sortietest.MetadataFault{Status: 503})
//
// AWS clients made after that ask it. Or fill in the fields and call [Metadata.Start], [Metadata.Listen] or [Metadata.Serve]. The fields must not change after that; everything
// that may change is a method, and methods may be called from several goroutines at once. It is driven by the clock of
// package time, and so works in [testing/synctest] bubbles.
//
// Keys look like SORTIETEST0001: no scanner takes them for real ones.
type Metadata struct {
	// Tokens says whether reads of the instance's metadata need a token of IMDSv2. Zero: they may have one.
	Tokens MetadataTokens

	// Roles are the roles of the instance. Nil: one, "sortie". Empty, but not nil: none, so that asking is a 404.
	Roles []string

	// Broker says when there is a new key. The zero value gives one with each answer. It serves all endpoints.
	Broker KeyBroker

	// Answer shapes the answers. Its zero value is a good one, with an hour to live.
	Answer KeyAnswer

	// Container makes Setenv and Env point to the container endpoint instead of the instance's. Both always answer.
	Container bool

	// ContainerPath is the path of the container endpoint. Empty: "/v2/credentials/sortie".
	ContainerPath string

	// ContainerToken, if not empty, is what the container endpoint wants to see in the header Authorization.
	ContainerToken string

	mu      sync.Mutex
	servers []*http.Server
	running sync.WaitGroup
	addr    string
	closed  bool
	current metadataState
	rules   []*metadataRule
	journal metadataJournal
	tokens  map[string]time.Time // tokens of IMDSv2, and when they end
	issued  int                  // tokens
}

// MetadataTokens says whether the metadata of an instance needs a token.
type MetadataTokens uint8

// The choices.
const (
	TokensOptional MetadataTokens = iota // with a token or without
	TokensRequired                       // without a valid one a read is a 401
	TokensOff                            // asking for one is a 404, as before there was IMDSv2
)

// EnvTB is what [Metadata.Setenv] needs of a test, beside [TB].
type EnvTB interface {
	TB
	Setenv(key, value string)
}

// NewMetadata starts a Metadata on a free port of the loopback interface. It is closed when the test ends.
func NewMetadata(tb TB) *Metadata {
	tb.Helper()
	m := &Metadata{}
	m.Start(tb)
	return m
}

// Start listens on the loopback interface until the test ends or [Metadata.Close] is called. If it cannot, the test
// fails at once.
func (m *Metadata) Start(tb TB) {
	tb.Helper()
	if err := m.Listen(); err != nil {
		tb.Fatalf("sortietest: %v", err)
		return
	}
	tb.Cleanup(m.Close)
}

// Listen is [Metadata.Start] for programs and for TestMain, where no test is at hand: the caller closes.
func (m *Metadata) Listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return m.Serve(l)
}

// Serve answers on l, until [Metadata.Close], and returns at once. It may be called for several listeners, such as one of
// a [Network] at 169.254.170.2:80. After Close it closes l and returns an error.
func (m *Metadata) Serve(l net.Listener) error {
	s := &http.Server{Handler: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		l.Close()
		return errors.New("metadata closed")
	}
	if m.addr == "" {
		m.addr = l.Addr().String()
	}
	m.servers = append(m.servers, s)
	m.running.Go(func() { s.Serve(l) })
	return nil
}

// Close lets hung requests go, closes all listeners and connections, and waits until nothing runs any more. Closing again
// does nothing.
func (m *Metadata) Close() {
	m.mu.Lock()
	servers := m.servers
	if !m.closed {
		m.closed = true
		m.releaseAllLocked()
	}
	m.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	m.running.Wait()
}

// URL returns "http://" and the address of the first listener; empty before there is one.
func (m *Metadata) URL() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.addr == "" {
		return ""
	}
	return "http://" + m.addr
}

// ContainerURL returns the full URL of the container endpoint.
func (m *Metadata) ContainerURL() string { return m.URL() + m.containerPath() }

func (m *Metadata) containerPath() string {
	if m.ContainerPath == "" {
		return "/v2/credentials/sortie"
	}
	return m.ContainerPath
}

// Setenv sets the environment for the test, so that AWS clients ask this Metadata: its variables, no credentials from the
// environment or from shared files, and metadata not disabled.
func (m *Metadata) Setenv(tb EnvTB) {
	tb.Helper()
	for _, kv := range m.environment() {
		tb.Setenv(kv[0], kv[1])
	}
}

// Env returns what [Metadata.Setenv] sets in the form of [os.Environ], for child processes. Later entries win there, so
// append it.
func (m *Metadata) Env() []string {
	var env []string
	for _, kv := range m.environment() {
		env = append(env, kv[0]+"="+kv[1])
	}
	return env
}

func (m *Metadata) environment() [][2]string {
	env := [][2]string{
		{"AWS_SHARED_CREDENTIALS_FILE", os.DevNull},
		{"AWS_CONFIG_FILE", os.DevNull},
		{"AWS_EC2_METADATA_DISABLED", ""},
		{"AWS_ACCESS_KEY_ID", ""},
		{"AWS_SECRET_ACCESS_KEY", ""},
		{"AWS_SESSION_TOKEN", ""},
		{"AWS_PROFILE", ""},
		{"AWS_WEB_IDENTITY_TOKEN_FILE", ""},
		{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ""},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""},
		{"AWS_ENDPOINT_URL_STS", m.URL()},
	}
	if m.Container {
		return append(env, [][2]string{
			{"AWS_CONTAINER_CREDENTIALS_FULL_URI", m.ContainerURL()},
			{"AWS_CONTAINER_AUTHORIZATION_TOKEN", m.ContainerToken},
		}...)
	}
	return append(env, [][2]string{
		{"AWS_EC2_METADATA_SERVICE_ENDPOINT", m.URL()},
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", ""},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN", ""},
	}...)
}
