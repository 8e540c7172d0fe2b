package sortietest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	tokenPath    = "/latest/api/token"
	rolesPath    = "/latest/meta-data/iam/security-credentials"
	tokenHeader  = "X-Aws-Ec2-Metadata-Token"
	ttlHeader    = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTokenTTL  = 21600
	maxTokens    = 100_000
	maxSTSBody   = 64 << 10
	metadataDate = "2006-01-02T15:04:05Z"
)

// metadataExchange is one request and its answer.
type metadataExchange struct {
	m        *Metadata
	w        http.ResponseWriter
	r        *http.Request
	place    MetadataPlace
	truncate bool
	seen     MetadataRequest
}

// ServeHTTP answers one request.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &metadataExchange{m: m, w: w, r: r, place: m.placeOf(r)}
	x.seen = MetadataRequest{Time: time.Now(), Place: x.place}
	rule := x.begin()
	defer x.end()
	if x.place == OnSTS { // the body first: net/http notices that a client left when there is nothing else to read
		r.Body = http.MaxBytesReader(w, r.Body, maxSTSBody)
		r.ParseForm()
	}
	if rule != nil && !x.act(rule) {
		return
	}
	switch x.place {
	case OnToken:
		x.token()
	case OnRoles, OnCreds:
		x.instance()
	case OnContainer:
		x.container()
	case OnSTS:
		x.sts()
	default:
		x.answer(http.StatusNotFound, "text/plain", "not found")
	}
}

func (m *Metadata) placeOf(r *http.Request) MetadataPlace {
	path := r.URL.Path
	role, below := strings.CutPrefix(path, rolesPath)
	switch {
	case path == tokenPath:
		return OnToken
	case below && strings.Trim(role, "/") == "":
		return OnRoles
	case below:
		return OnCreds
	case path == m.containerPath():
		return OnContainer
	case path == "/" && r.Method == http.MethodPost:
		return OnSTS
	}
	return 0
}

// begin counts the request and returns the fault that hits it.
func (x *metadataExchange) begin() *metadataRule {
	m := x.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running.Add(1)
	s := &m.journal.stats
	if s.Requests == nil {
		s.Requests = make(map[MetadataPlace]int)
		s.Statuses = make(map[MetadataPlace]map[int]int)
	}
	s.Requests[x.place]++
	s.InFlight++
	s.MaxInFlight = max(s.MaxInFlight, s.InFlight)
	return m.faultLocked(x.place, x.seen.Time)
}

func (x *metadataExchange) end() {
	m := x.m
	defer m.running.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	j := &m.journal
	j.stats.InFlight--
	if j.stats.Statuses[x.place] == nil {
		j.stats.Statuses[x.place] = make(map[int]int)
	}
	j.stats.Statuses[x.place][x.seen.Status]++
	if len(j.requests) == keepMetadataRequests {
		j.requests = slices.Delete(j.requests, 0, 1)
	}
	j.requests = append(j.requests, x.seen)
}

// answer writes an answer, or half of one.
func (x *metadataExchange) answer(status int, contentType, body string) {
	x.seen.Status = status
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.truncate {
		body = body[:len(body)/2] // net/http then closes the connection
	}
	x.w.Write([]byte(body))
}

// token answers PUT /latest/api/token.
func (x *metadataExchange) token() {
	ttl, err := strconv.Atoi(x.r.Header.Get(ttlHeader))
	switch {
	case x.m.Tokens == TokensOff:
		x.answer(http.StatusNotFound, "text/plain", "not found")
	case x.r.Method != http.MethodPut:
		x.answer(http.StatusMethodNotAllowed, "text/plain", "PUT it")
	case x.r.Header.Get("X-Forwarded-For") != "": // as the real one does: a proxy may be open to the world
		x.answer(http.StatusForbidden, "text/plain", "forwarded")
	case err != nil || ttl < 1 || ttl > maxTokenTTL:
		x.answer(http.StatusBadRequest, "text/plain", "bad TTL")
	default:
		x.w.Header().Set(ttlHeader, strconv.Itoa(ttl))
		x.answer(http.StatusOK, "text/plain", x.m.newToken(time.Duration(ttl)*time.Second))
	}
}

func (m *Metadata) newToken(ttl time.Duration) string {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens == nil || len(m.tokens) >= maxTokens {
		m.tokens = make(map[string]time.Time)
	}
	m.issued++
	token := fmt.Sprintf("sortietest-token-%06d", m.issued)
	m.tokens[token] = now.Add(ttl)
	return token
}

// RevokeTokens ends all tokens of IMDSv2 that were given out, as a restart of the service does.
func (m *Metadata) RevokeTokens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens = nil
}

// admitted reports whether the request may read the instance's metadata, and counts it if it has no token.
func (x *metadataExchange) admitted() bool {
	token := x.r.Header.Get(tokenHeader)
	m := x.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if token == "" || m.Tokens == TokensOff {
		m.journal.stats.V1Reads++
		return m.Tokens != TokensRequired
	}
	return time.Now().Before(m.tokens[token])
}

// instance answers for the roles of an instance and their keys.
func (x *metadataExchange) instance() {
	x.m.mu.Lock()
	roles := x.m.stateLocked().roles
	x.m.mu.Unlock()
	role := strings.Trim(strings.TrimPrefix(x.r.URL.Path, rolesPath), "/")
	switch {
	case !x.admitted():
		x.answer(http.StatusUnauthorized, "text/plain", "no valid token")
	case x.r.Method != http.MethodGet:
		x.answer(http.StatusMethodNotAllowed, "text/plain", "GET it")
	case len(roles) == 0 || x.place == OnCreds && !slices.Contains(roles, role):
		x.answer(http.StatusNotFound, "text/plain", "not found")
	case x.place == OnRoles:
		x.answer(http.StatusOK, "text/plain", strings.Join(roles, "\n"))
	default:
		x.keys(true)
	}
}

// container answers for the keys of a container.
func (x *metadataExchange) container() {
	x.seen.Token = x.r.Header.Get("Authorization")
	if want := x.m.ContainerToken; want != "" && x.seen.Token != want {
		x.answer(http.StatusUnauthorized, "application/json", `{"code":"Unauthorized","message":"wrong token"}`)
		return
	}
	x.keys(false)
}

// keyBody is the JSON of an answer with keys.
type keyBody struct {
	Code            string `json:"Code,omitempty"`
	Message         string `json:"Message,omitempty"`
	LastUpdated     string `json:"LastUpdated,omitempty"`
	Type            string `json:"Type,omitempty"`
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string `json:"SecretAccessKey"`
	Token           string `json:"Token"`
	Expiration      string `json:"Expiration"`
}

// next returns the keys of this answer and its shape.
func (x *metadataExchange) next() (Keys, KeyAnswer) {
	m := x.m
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateLocked()
	k := s.keysLocked(now)
	x.truncate = x.truncate || s.answer.Truncated
	x.seen.Key = k.AccessKeyID
	if s.answer.NoKeys {
		k.AccessKeyID, k.SecretAccessKey, k.SessionToken, x.seen.Key = "", "", "", ""
	}
	return k, s.answer
}

func (x *metadataExchange) keys(instance bool) {
	k, shape := x.next()
	body := keyBody{
		AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, Token: k.SessionToken,
		Expiration: shape.date(k.Expires),
	}
	if instance {
		body.Code, body.Type, body.LastUpdated = "Success", "AWS-HMAC", x.seen.Time.UTC().Format(metadataDate)
		if shape.Code != "" {
			body = keyBody{Code: shape.Code, Message: "as the test wants it"}
		}
	}
	text, err := json.Marshal(body)
	if err != nil { // of strings? but let it be seen
		x.answer(http.StatusInternalServerError, "text/plain", err.Error())
		return
	}
	if shape.BadJSON {
		text = text[1:]
	}
	x.answer(http.StatusOK, "application/json", string(text))
}

func (a *KeyAnswer) date(t time.Time) string {
	if a.BadDate {
		return "tomorrow"
	}
	return t.UTC().Format(metadataDate)
}

// assumed is the XML of AssumeRoleWithWebIdentity's answer.
type assumed struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleWithWebIdentityResponse"`
	Result  struct {
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string `xml:"SecretAccessKey"`
			SessionToken    string `xml:"SessionToken"`
			Expiration      string `xml:"Expiration"`
		} `xml:"Credentials"`
		AssumedRoleUser struct {
			Arn           string `xml:"Arn"`
			AssumedRoleID string `xml:"AssumedRoleId"`
		} `xml:"AssumedRoleUser"`
	} `xml:"AssumeRoleWithWebIdentityResult"`
}

// refusedXML is the XML of an error of STS.
type refusedXML struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
	Error   struct {
		Type    string `xml:"Type"`
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	} `xml:"Error"`
}

// sts answers AssumeRoleWithWebIdentity.
func (x *metadataExchange) sts() {
	if x.r.PostForm.Get("Action") != "AssumeRoleWithWebIdentity" {
		x.refuse("InvalidAction")
		return
	}
	x.seen.Token = x.r.PostForm.Get("WebIdentityToken")
	x.m.mu.Lock()
	code := x.m.stateLocked().stsError
	x.m.mu.Unlock()
	if code != "" {
		x.refuse(code)
		return
	}
	k, shape := x.next()
	var a assumed
	c := &a.Result.Credentials
	c.AccessKeyID, c.SecretAccessKey, c.SessionToken = k.AccessKeyID, k.SecretAccessKey, k.SessionToken
	c.Expiration = shape.date(k.Expires)
	a.Result.AssumedRoleUser.Arn = "arn:aws:sts::123456789012:assumed-role/sortie/" + x.r.PostForm.Get("RoleSessionName")
	a.Result.AssumedRoleUser.AssumedRoleID = "AROASORTIETEST:sortie"
	text, _ := xml.Marshal(a) // strings only
	if shape.BadJSON {
		text = text[1:]
	}
	x.answer(http.StatusOK, "text/xml", string(text))
}

func (x *metadataExchange) refuse(code string) {
	var e refusedXML
	e.Error.Type, e.Error.Code, e.Error.Message = "Sender", code, "as the test wants it"
	text, _ := xml.Marshal(e) // strings only
	status := http.StatusBadRequest
	if code == "AccessDenied" {
		status = http.StatusForbidden
	}
	x.answer(status, "text/xml", string(text))
}
