package creds

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	maxFile     = 64 << 10
	defaultPoll = 30 * time.Second
	settleTime  = 200 * time.Millisecond // between two reads that have to agree
)

// File is the source of credentials that something else writes into a file and rotates there: a profile of a shared
// credentials file, or the JSON that a credential_process prints. Give it to [New], whose Cache reads the whole file every
// Poll, so that renames, writes in place and equal times of change all work. A changed file counts when two reads 200 ms
// apart agree and it can be parsed: one that is half written never replaces good keys.
type File struct {
	Path    string        // required
	Profile string        // of a shared credentials file. Empty: "default"
	Poll    time.Duration // how often the file is read. Zero: 30 s
}

// Retrieve reads the file once. It is for use without a [Cache].
func (f File) Retrieve(ctx context.Context) (aws.Credentials, error) { return retrieve(ctx, f) }

// ProviderSources returns [aws.CredentialSourceProfile].
func (File) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceProfile}
}

func (File) kind() string { return "file" }

func (f File) open() (aws.CredentialsProvider, error) {
	w, err := watch("File", f.Path, f.Poll)
	if err != nil {
		return nil, err
	}
	return &keyFile{w, f.Profile}, nil
}

// keyFile is an opened File.
type keyFile struct {
	*watched
	profile string
}

func (f *keyFile) ProviderSources() []aws.CredentialSource { return File{}.ProviderSources() }

func (f *keyFile) Retrieve(ctx context.Context) (c aws.Credentials, err error) {
	err = f.read(ctx, func(text []byte) error {
		c, err = parseKeys(text, f.profile)
		return err
	})
	return c, err
}

// watched is a small file that changes now and then.
type watched struct {
	path string
	poll time.Duration

	mu      sync.Mutex
	known   bool
	adopted [sha256.Size]byte // of the content that was parsed last
}

func watch(field, path string, poll time.Duration) (*watched, error) {
	var all []error
	if path == "" {
		all = append(all, fmt.Errorf("creds: %s.Path: empty", field))
	}
	if poll < 0 {
		all = append(all, fmt.Errorf("creds: %s.Poll: negative (%v)", field, poll))
	}
	if poll == 0 {
		poll = defaultPoll
	}
	return &watched{path: path, poll: poll}, errors.Join(all...)
}

func (w *watched) polls() time.Duration { return w.poll }

// changed reports whether the file holds something else than what was parsed last. One that cannot be read is not a
// changed one: it may be about to be replaced.
func (w *watched) changed() bool {
	text, err := readSmall(w.path)
	return err == nil && !w.has(text)
}

// has reports whether text is what was parsed last, or nothing was yet.
func (w *watched) has(text []byte) bool {
	sum := sha256.Sum256(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.known || w.adopted == sum
}

func (w *watched) adopt(text []byte) {
	sum := sha256.Sum256(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.adopted = true, sum
}

// read parses the file, when it has settled.
func (w *watched) read(ctx context.Context, parse func([]byte) error) error {
	text, err := readSmall(w.path)
	for err == nil && !w.has(text) {
		before := text
		if err = wait(ctx, settleTime); err == nil {
			text, err = readSmall(w.path)
		}
		if bytes.Equal(before, text) {
			break
		}
	}
	if err == nil {
		err = parse(text)
	}
	if err != nil {
		return err
	}
	w.adopt(text)
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readSmall reads a file of at most 64 KiB.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the user's configuration
	if err != nil {
		return nil, fmt.Errorf("creds: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("creds: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("creds: %s has more than 64 KiB", path)
	}
	return text, nil
}
