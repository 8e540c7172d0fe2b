package creds_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/creds"
)

func profile(k string) string {
	return "# written by a sidecar\n[other]\naws_access_key_id = X\naws_secret_access_key = Y\n\n[default]\n" +
		"aws_access_key_id = " + k + "\naws_secret_access_key = secret-of-" + k + " # rotated\naws_session_token=session-of-" + k + "\n"
}

// fileStory runs in virtual time with a Cache of a file.
func fileStory(t *testing.T, text string, tell func(t *testing.T, c *creds.Cache, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	write(t, path, text)
	synctest.Test(t, func(t *testing.T) {
		tell(t, newCache(t, creds.File{Path: path}, creds.Config{}), path)
	})
}

func TestRotatedFileIsAdopted_aws_sdk_go_v22135(t *testing.T) {
	fileStory(t, profile("K1"), func(t *testing.T, c *creds.Cache, path string) {
		wantKey(t, c, "K1")
		write(t, path, profile("K2")) // in place
		time.Sleep(31 * time.Second)
		wantKey(t, c, "K2")
		write(t, path+".new", profile("K3")) // by rename, and with the time of the old one
		info, _ := os.Stat(path)
		os.Chtimes(path+".new", info.ModTime(), info.ModTime())
		os.Rename(path+".new", path)
		time.Sleep(31 * time.Second)
		wantKey(t, c, "K3")
		if v, _ := c.Retrieve(t.Context()); v.SecretAccessKey != "secret-of-K3" || v.SessionToken != "session-of-K3" || v.CanExpire {
			t.Error("wrong credentials")
		}
		before := c.Stats().Total()
		time.Sleep(time.Hour)
		if n := c.Stats().Total(); n != before {
			t.Errorf("%d fetches of a file that did not change", n-before)
		}
	})
}

func TestHalfWrittenFileNeverReplacesGoodKeys_cube11622(t *testing.T) {
	fileStory(t, profile("K1"), func(t *testing.T, c *creds.Cache, path string) {
		wantKey(t, c, "K1")
		for _, half := range []string{"", "[default]\naws_access_key_id = K2\n", "{", "[defa"} {
			write(t, path, half)
			time.Sleep(31 * time.Second)
			wantKey(t, c, "K1")
			if s := c.Stats(); s.LastError == nil || s.Rule != "poll" || time.Until(s.Next) > 30*time.Second {
				t.Errorf("%q: LastError %v, next try in %v by %q", half, s.LastError, time.Until(s.Next), s.Rule)
			}
		}
		write(t, path, profile("K2"))
		time.Sleep(31 * time.Second)
		wantKey(t, c, "K2")
		os.Remove(path)
		time.Sleep(10 * time.Minute)
		wantKey(t, c, "K2")
		if n := c.Stats().Failures; n != 0 {
			t.Errorf("%d failures for a file that is not there", n)
		}
	})
}

// A file that is being written reads differently each time; it counts when two reads agree.
func TestFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	fileStory(t, profile("K1"), func(t *testing.T, c *creds.Cache, path string) {
		wantKey(t, c, "K1")
		full := profile("K2")
		cut := len(full) - 40
		write(t, path, full[:cut]) // parses, with a token that is not whole
		time.AfterFunc(30*time.Second+100*time.Millisecond, func() { write(t, path, full) })
		time.Sleep(30*time.Second + 201*time.Millisecond)
		wantKey(t, c, "K1")
		time.Sleep(200 * time.Millisecond)
		wantKey(t, c, "K2")
		if v, _ := c.Retrieve(t.Context()); v.SessionToken != "session-of-K2" {
			t.Error("the half-written token was adopted")
		}
	})
}

func TestCorrectedSecretOfTheSameKeyIsAdopted(t *testing.T) {
	fileStory(t, "[default]\naws_access_key_id=K1\naws_secret_access_key=secr", func(t *testing.T, c *creds.Cache, path string) {
		wantKey(t, c, "K1")
		write(t, path, profile("K1"))
		time.Sleep(31 * time.Second)
		if v, _ := c.Retrieve(t.Context()); v.SecretAccessKey != "secret-of-K1" {
			t.Error("the old secret is still in use")
		}
	})
}

func TestFileOfACredentialProcess(t *testing.T) {
	process := func(n int) string {
		return fmt.Sprintf(`{"Version":1,"AccessKeyId":"K%d","SecretAccessKey":"s","SessionToken":"t","Expiration":%q,"AccountId":"7"}`,
			n, time.Now().Add(time.Hour).Format(time.RFC3339))
	}
	fileStory(t, "", func(t *testing.T, c *creds.Cache, path string) {
		if _, _, err := tryRead(t, c); err == nil {
			t.Error("an empty file is no error")
		}
		write(t, path, process(1))
		time.Sleep(2 * time.Second)
		wantKey(t, c, "K1")
		if v, _ := c.Retrieve(t.Context()); time.Until(v.Expires) > time.Hour || v.AccountID != "7" {
			t.Errorf("%v left, account %s", time.Until(v.Expires), v.AccountID)
		}
		time.Sleep(59 * time.Minute)
		wantKey(t, c, "K1")
		write(t, path, process(2))
		time.Sleep(40 * time.Second)
		wantKey(t, c, "K2")
	})
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	write(t, path, profile("K1")+string(make([]byte, 64<<10)))
	if _, err := (creds.File{Path: path}).Retrieve(t.Context()); err == nil {
		t.Error("a large file was read")
	}
	if _, err := (creds.File{Path: path + "x"}).Retrieve(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func jwt(exp time.Time) string {
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":"me","exp":%d}`, exp.Unix()))
	return "eyJhbGciOiJub25lIn0." + claims + ".c2ln"
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		exp := time.Now().Add(time.Hour)
		write(t, path, jwt(exp)+"\n")
		tok := newTokens(t, creds.TokenFile{Path: path}, creds.Config{})
		v, err := tok.Token(t.Context())
		if err != nil || !v.Expires.Equal(exp) || v.Value != jwt(exp) {
			t.Fatalf("%v, %v", v, err)
		}
		time.Sleep(30 * time.Minute)
		next := time.Now().Add(2 * time.Hour)
		write(t, path, jwt(next))
		time.Sleep(31 * time.Second)
		if v, err = tok.Token(t.Context()); err != nil || !v.Expires.Equal(next) || tok.Stats().Name != "token-file" {
			t.Errorf("%v, %v", v, err)
		}
		write(t, path, "two words")
		time.Sleep(31 * time.Second)
		if v, err = tok.Token(t.Context()); err != nil || !v.Expires.Equal(next) {
			t.Errorf("%v, %v", v, err)
		}
	})
	if _, err := creds.NewTokens(creds.TokenFile{}, creds.Config{}); err == nil {
		t.Error("a TokenFile without path")
	}
	if v, err := (creds.TokenFile{Path: path}).Token(t.Context()); err == nil {
		t.Errorf("%v", v)
	}
}
