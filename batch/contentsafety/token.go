package contentsafety

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/post"
	"rollcall/batch/transport"
)

const (
	opToken = "token"
	scope   = "https://cognitiveservices.azure.com/.default"

	// spare is how long before its end a token is replaced at the latest, so
	// that it does not end on the way.
	spare = 2 * time.Minute
	// again is how long a token that still holds is used after the next one
	// could not be had.
	again = 30 * time.Second
	// maxToken bounds a token in bytes. They are of some two kilobytes.
	maxToken = 16 << 10
	// maxLife bounds what an answer can claim; tokens live for about an hour.
	maxLife = 24 * time.Hour
)

// token is one access token.
type token struct {
	value string
	renew time.Time // when to ask for another
	end   time.Time
	taken bool // some call with it was not refused
}

// tokens hands out the token of a client-credentials grant, and fetches the next
// one before it ends. One caller at a time fetches; the others wait for it.
type tokens struct {
	app  Entra
	wire *post.Client
	now  func() time.Time
	turn chan struct{} // holds a value while somebody fetches

	mu   sync.Mutex // guards held and what it points at
	held *token
}

func newTokens(cfg Config) (*tokens, error) {
	login := cfg.Entra.LoginURL
	if login == "" {
		login = DefaultLoginURL
	}
	wire, err := cfg.client(login, "X-Ms-Request-Id")
	if err != nil {
		return nil, err
	}
	t := &tokens{app: *cfg.Entra, wire: wire, now: cfg.Now, turn: make(chan struct{}, 1)}
	if t.now == nil {
		t.now = time.Now
	}
	return t, nil
}

// get returns a token that holds. Its errors are about the account or the
// moment, never about a text.
func (t *tokens) get(ctx context.Context) (*token, error) {
	if tok := t.fresh(); tok != nil {
		return tok, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, &batch.Error{Op: opToken, Kind: batch.Temporary, Cause: ctx.Err()}
	}
	if tok := t.fresh(); tok != nil { // somebody fetched it meanwhile
		return tok, nil
	}
	next, err := t.fetch(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.held = next
		return next, nil
	}
	if now := t.now(); t.held != nil && now.Before(t.held.end) {
		t.held.renew = now.Add(again)
		return t.held, nil
	}
	return nil, err
}

// fresh is the token that is held, unless it is time for another.
func (t *tokens) fresh() *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); t.held == nil || !now.Before(t.held.renew) || !now.Before(t.held.end) {
		return nil
	}
	return t.held
}

// accepted notes that a call with tok was let in.
func (t *tokens) accepted(tok *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tok.taken = true
}

// refused drops tok, and says what that means: a token that was let in before
// has been taken back, and the next one may be let in. One that never was says
// that the application is not.
func (t *tokens) refused(tok *token) batch.Kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == tok {
		t.held = nil
	}
	if tok.taken {
		return batch.Temporary
	}
	return batch.Denied
}

// fetch asks for a token.
func (t *tokens) fetch(ctx context.Context) (*token, error) {
	asked := t.now()
	a, err := t.wire.Send(ctx, opToken, post.Request{
		Path:        "/" + t.app.Tenant + "/oauth2/v2.0/token",
		ContentType: "application/x-www-form-urlencoded",
		Body: []byte(url.Values{
			"grant_type": {"client_credentials"}, "client_id": {t.app.ClientID}, "client_secret": {t.app.Secret()}, "scope": {scope},
		}.Encode()),
	})
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		e := a.Fault(opToken)
		if e.Kind == batch.Rejected || e.Kind == batch.NotFound {
			e.Kind = batch.Denied // 400 invalid_client, 400 for an unknown tenant
		}
		return nil, e
	}
	tok, ok := readToken(a.Body, asked)
	if !ok {
		return nil, a.Error(opToken, batch.BadAnswer, "")
	}
	return tok, nil
}

// readToken reads the answer to a grant that was asked for at a time. Some
// servers write the seconds as a text.
func readToken(body []byte, asked time.Time) (*token, bool) {
	var w struct {
		Type  jsontext.Value `json:"token_type"`
		Token jsontext.Value `json:"access_token"`
		Life  jsontext.Value `json:"expires_in"`
	}
	if json.Unmarshal(body, &w) != nil {
		return nil, false
	}
	kind, _ := post.Text(w.Type)
	value, _ := post.Text(w.Token)
	seconds, ok := post.Whole(w.Life)
	if text, isText := post.Text(w.Life); isText {
		n, err := strconv.ParseInt(text, 10, 32)
		seconds, ok = n, err == nil
	}
	if !ok || seconds <= 0 || !strings.EqualFold(kind, "Bearer") || !transport.HeaderSafe(value) || len(value) > maxToken {
		return nil, false
	}
	life := time.Duration(min(seconds, int64(maxLife/time.Second))) * time.Second
	left := max(life/5, min(spare, life/2))
	return &token{value: value, renew: asked.Add(life - left), end: asked.Add(life)}, true
}
