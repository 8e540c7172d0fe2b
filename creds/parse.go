package creds

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// parseKeys reads credentials from a shared credentials file or from the JSON of a credential_process. No error tells
// what is in the file.
func parseKeys(text []byte, profile string) (aws.Credentials, error) {
	if object := bytes.TrimLeft(text, " \t\r\n\ufeff"); bytes.HasPrefix(object, []byte("{")) {
		return parseProcess(object)
	}
	return parseProfile(string(text), cmp.Or(profile, "default"))
}

// parseProcess reads what a credential_process prints: Version is 1, and Expiration may be missing.
func parseProcess(text []byte) (aws.Credentials, error) {
	var body struct {
		Version         int    `json:"Version"`
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string `json:"SecretAccessKey"`
		SessionToken    string `json:"SessionToken"`
		Expiration      string `json:"Expiration"`
		AccountID       string `json:"AccountId"`
	}
	switch err := json.Unmarshal(text, &body); {
	case err != nil:
		return aws.Credentials{}, errors.New("creds: the file is no valid JSON of a credential_process")
	case body.Version != 1:
		return aws.Credentials{}, fmt.Errorf("creds: the file's Version is %d, want 1", body.Version)
	}
	c := aws.Credentials{
		AccessKeyID: body.AccessKeyID, SecretAccessKey: body.SecretAccessKey, SessionToken: body.SessionToken,
		AccountID: body.AccountID, Source: "File",
	}
	if body.Expiration == "" {
		return c, nil
	}
	t, err := time.Parse(time.RFC3339, body.Expiration)
	if err != nil {
		return aws.Credentials{}, errors.New("creds: the file's Expiration is no date of RFC 3339")
	}
	c.CanExpire, c.Expires = true, t
	return c, nil
}

// parseProfile reads one profile of a shared credentials file: lines "key = value" below a line "[name]". Comments begin
// with '#' or ';', lines that begin with white space continue the one before, and of two profiles or keys of one name the
// later counts, as in the SDKs.
func parseProfile(text, profile string) (aws.Credentials, error) {
	c := aws.Credentials{Source: "File"}
	fields := map[string]*string{
		"aws_access_key_id": &c.AccessKeyID, "aws_secret_access_key": &c.SecretAccessKey,
		"aws_session_token": &c.SessionToken, "aws_account_id": &c.AccountID,
	}
	found, inside := false, false
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' || line[0] == ' ' || line[0] == '\t':
		case trimmed[0] == '[':
			name, _, _ := strings.Cut(trimmed[1:], "]")
			inside = sectionName(name) == profile
			found = found || inside
		case inside:
			key, value, _ := strings.Cut(trimmed, "=")
			if field := fields[strings.ToLower(strings.TrimSpace(key))]; field != nil {
				*field = strings.TrimSpace(withoutComment(value))
			}
		}
	}
	if !found {
		return aws.Credentials{}, fmt.Errorf("creds: the file has no profile %q", profile)
	}
	return c, nil
}

// sectionName returns the profile that a section is of; a config file writes "profile name".
func sectionName(section string) string {
	section = strings.TrimSpace(section)
	if first, rest, ok := strings.Cut(section, " "); ok && first == "profile" {
		return strings.TrimSpace(rest)
	}
	return section
}

// withoutComment cuts a comment that follows a value, after white space.
func withoutComment(value string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		value, _, _ = strings.Cut(value, mark)
	}
	return value
}

// jwtExpiry returns when a JSON web token ends, by its claim exp, which is believed unverified: who accepts the token
// checks it. Zero if it is no JWT or has no such claim.
func jwtExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp == nil || *claims.Exp <= 0 || *claims.Exp > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(*claims.Exp), 0)
}
