package main

import (
	"bytes"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollcall/configs"
	"rollcall/reconcile/webhook"
	"rollcall/sql/sqltest"
)

// The secrets of these tests; each holds the marker.
const (
	hookSecret    = "whsec_" + marker + "AAAAAAAAAAAAAAAAAAA"
	hookPrevious  = "whsec_" + marker + "BBBBBBBBBBBBBBBBBBB"
	hookElsewhere = "whsec_" + marker + "CCCCCCCCCCCCCCCCCCC"
	hookUnknown   = "whsec_" + marker + "DDDDDDDDDDDDDDDDDDD"
)

// withHooks gives the deployment's account two secrets and puts another account
// beside it, and sends one job.
func (o *operator) withHooks() {
	o.t.Helper()
	const previous = "ROLLCALL_TEST_HOOK_PREVIOUS"
	o.t.Setenv(previous, hookPrevious)
	o.file("sandbox.webhook", hookSecret+"\n")
	o.file("other.webhook", hookElsewhere)
	o.edit("rollcall.yaml", "    project: sandbox\n", "    project: sandbox\n    webhook: {secrets: [{file: sandbox.webhook}, {env: "+previous+"}]}\n",
		"\nsources:\n", "\n  - {name: other, provider: openai, base_url: \"http://"+o.box.address+"/v1\", region: local, project: other, api_key: {file: sandbox.key}, allow_loopback: true, webhook: {secrets: [{file: other.webhook}]}}\nsources:\n")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.must(exitDone, "run", "collect", "submit")
}

// tables is a connection of a test's own.
func (o *operator) tables(database string) *stdsql.DB {
	o.t.Helper()
	driver, address := "sqlite", filepath.Join(o.dir, "rollcall.db")+"?_pragma=busy_timeout(10000)"
	if database == "postgres" {
		driver, address = "postgres", os.Getenv("ROLLCALL_TEST_DATABASE")
	}
	db, err := stdsql.Open(driver, address)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = db.Close() })
	return db
}

// pollOf is the one job, as far as an event could touch it.
type pollOf struct {
	theirs, state string
	next          stdsql.NullInt64
}

func pollIn(t *testing.T, db *stdsql.DB) (p pollOf) {
	t.Helper()
	if err := db.QueryRow("SELECT provider_job_id, state, next_poll_us FROM jobs").Scan(&p.theirs, &p.state, &p.next); err != nil {
		t.Fatal(err)
	}
	return p
}

// postpone has the next poll far away, as long behind an answer.
func postpone(t *testing.T, db *stdsql.DB) pollOf {
	t.Helper()
	now := time.Now()
	if _, err := db.Exec("UPDATE jobs SET next_poll_us = $1, pull_from_us = $2", now.Add(50*time.Minute).UnixMicro(), now.Add(-time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	return pollIn(t, db)
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answering is the daemon's HTTP server without its schedules.
func (o *operator) answering() (s *server, log *logBuffer) {
	o.t.Helper()
	log = &logBuffer{}
	a := &app{in: strings.NewReader(""), out: io.Discard, errOut: log, configPath: filepath.Join(o.dir, "rollcall.yaml"), logLevel: "trace"}
	d, err := a.open(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(d.close)
	s = &server{app: a}
	g, err := s.generation(d, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	s.current.Store(g)
	if err := s.http.listen("127.0.0.1:0", s.handler()); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(s.http.close)
	return s, log
}

func endedEvent(jobID string) string {
	return fmt.Sprintf(`{"object":"event","id":"evt_1","type":"batch.completed","created_at":1767225600,"note":"%s","data":{"id":"%s"}}`, marker, jobID)
}

// hookRequest is a signed request to an account's webhook.
func hookRequest(t *testing.T, address, account, secret, body string, at time.Time) *http.Request {
	t.Helper()
	k, err := webhook.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/hooks/provider/"+account, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Sign(req.Header, "evt_1", at, []byte(body), k); err != nil {
		t.Fatal(err)
	}
	return req
}

// answerTo sends a request and gives the answer's code and all else that it says.
func answerTo(t *testing.T, req *http.Request) (code int, said string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	resp.Header.Del("Date")
	resp.Header.Del("Connection") // closed where a body was not read
	return resp.StatusCode, fmt.Sprint(resp.Header, string(text))
}

// TestHookPullsAndDoesNothingElse: of all that may arrive, only a genuine event
// about a job of exactly this account moves its poll. All that is not genuine is
// answered alike.
func TestHookPullsAndDoesNothingElse(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.withHooks()
			db := o.tables(database)
			s, log := o.answering()
			theirs := pollIn(t, db).theirs
			refusals := map[string]int{}
			for name, tc := range map[string]struct {
				account, secret, body string
				at                    time.Duration // of the signature, from the present
				change                func(*http.Request)
				code                  int
				pulls                 bool
			}{
				"genuine":                    {"sandbox", hookSecret, endedEvent(theirs), 0, nil, 204, true},
				"by the other secret":        {"sandbox", hookPrevious, endedEvent(theirs), 0, nil, 204, true},
				"of some minutes ago":        {"sandbox", hookSecret, endedEvent(theirs), -4 * time.Minute, nil, 204, true},
				"failed":                     {"sandbox", hookSecret, strings.Replace(endedEvent(theirs), "completed", "failed", 1), 0, nil, 204, true},
				"of another type":            {"sandbox", hookSecret, strings.Replace(endedEvent(theirs), "completed", "paused", 1), 0, nil, 204, false},
				"about no job of ours":       {"sandbox", hookSecret, endedEvent("batch_nobody"), 0, nil, 204, false},
				"about a job of another":     {"other", hookElsewhere, endedEvent(theirs), 0, nil, 204, false},
				"no event":                   {"sandbox", hookSecret, marker, 0, nil, 422, false},
				"an event without its job":   {"sandbox", hookSecret, endedEvent("../" + theirs), 0, nil, 422, false},
				"forged":                     {"sandbox", hookUnknown, endedEvent(theirs), 0, nil, 401, false},
				"with the secret of another": {"sandbox", hookElsewhere, endedEvent(theirs), 0, nil, 401, false},
				"at another":                 {"other", hookSecret, endedEvent(theirs), 0, nil, 401, false},
				"at nobody":                  {marker, hookSecret, endedEvent(theirs), 0, nil, 401, false},
				"stale":                      {"sandbox", hookSecret, endedEvent(theirs), -6 * time.Minute, nil, 401, false},
				"of a time to come":          {"sandbox", hookSecret, endedEvent(theirs), 6 * time.Minute, nil, 401, false},
				"unsigned":                   {"sandbox", hookSecret, endedEvent(theirs), 0, func(r *http.Request) { r.Header.Del(webhook.HeaderSignature) }, 401, false},
				"with a sign before the number": {"sandbox", hookSecret, endedEvent(theirs), 0, func(r *http.Request) {
					r.Header.Set(webhook.HeaderTimestamp, "+"+r.Header.Get(webhook.HeaderTimestamp))
				}, 401, false},
				"compressed": {"sandbox", hookSecret, endedEvent(theirs), 0, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 401, false},
				"too large":  {"sandbox", hookSecret, endedEvent(theirs) + strings.Repeat(" ", hookBody), 0, nil, 401, false},
			} {
				was := postpone(t, db)
				before := time.Now()
				req := hookRequest(t, s.http.address, tc.account, tc.secret, tc.body, before.Add(tc.at))
				if tc.change != nil {
					tc.change(req)
				}
				code, said := answerTo(t, req)
				if code != tc.code {
					t.Errorf("%s: %d, want %d", name, code, tc.code)
				}
				if code == http.StatusUnauthorized {
					refusals[said]++
				}
				is := pollIn(t, db)
				if tc.pulls {
					if is.next.Int64 < before.Add(-time.Minute).UnixMicro() || is.next.Int64 > time.Now().Add(time.Minute).UnixMicro() {
						t.Errorf("%s: the next poll is at %d", name, is.next.Int64)
					}
					was.next = is.next
				}
				if is != was {
					t.Errorf("%s: %+v became %+v", name, was, is)
				}
			}
			if len(refusals) != 1 {
				t.Errorf("what is refused is not answered alike: %v", refusals)
			}
			if code, _ := get(t, s.http.address, "/hooks/provider/sandbox"); code != http.StatusMethodNotAllowed {
				t.Errorf("GET: %d", code)
			}
			o.noHookSecrets(s, log)
			counted := map[string]int64{}
			for _, c := range s.hooks.states() {
				counted[c.Account+" "+string(c.Outcome)] = c.Requests
			}
			want := map[string]int64{"sandbox pulled": 4, "sandbox other_event": 1, "sandbox no_change": 1, "other no_change": 1, "sandbox unreadable": 2, "sandbox forged": 2, "other forged": 1, "- forged": 1,
				"sandbox stale": 1, "sandbox future": 1, "sandbox unsigned": 1, "sandbox malformed": 1, "sandbox encoded": 1, "sandbox too_large": 1}
			if !maps.Equal(counted, want) {
				t.Errorf("counted %v\nwant %v", counted, want)
			}
		})
	}
}

// noHookSecrets holds that neither a secret nor a body nor a name from a request is
// logged or shown, and that what was refused is.
func (o *operator) noHookSecrets(s *server, log *logBuffer) {
	o.t.Helper()
	_, ready := get(o.t, s.http.address, "/readyz")
	for what, text := range map[string]string{"the log": log.String(), "readyz": ready} {
		if strings.Contains(text, marker) || strings.Contains(text, "whsec") || strings.Contains(text, "v1,") {
			o.t.Errorf("%s holds a secret, a body or a name: %s", what, text)
		}
	}
	var shown readiness
	if err := json.Unmarshal([]byte(ready), &shown); err != nil || !slices.Equal(shown.Webhooks, s.hooks.states()) {
		o.t.Errorf("readyz shows %+v, %v", shown.Webhooks, err)
	}
	for _, words := range [][]string{{`"outcome":"forged"`, `"account":"sandbox"`, `"level":"warn"`}, {`"job_id"`, `"provider_job_id"`, `"secret":1`}} {
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool { return holdsAll(line, words) }) {
			o.t.Errorf("no line with %q in %s", words, log)
		}
	}
}

// TestStormOfHooks: a thousand genuine events, and a thousand forged ones, are one
// early poll and a few lines of the log. An event about a job that is over is none.
func TestStormOfHooks(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.withHooks()
			db := o.tables(database)
			s, log := o.answering()
			was := postpone(t, db)
			began := time.Now()
			codes := o.storm(s, was.theirs, 1000)
			is := pollIn(t, db)
			if is.next.Int64 > time.Now().Add(time.Minute).UnixMicro() || is.state != was.state {
				t.Errorf("%+v became %+v", was, is)
			}
			pulled := int64(0)
			for _, c := range s.hooks.states() {
				if c.Outcome == hookPulled {
					pulled += c.Requests
				}
			}
			if pulled != 1 || codes[204] == 0 || codes[401] == 0 || codes[204]+codes[401]+codes[503] != 2000 {
				t.Errorf("%d pulls; codes %v", pulled, codes)
			}
			if lines := strings.Count(log.String(), "\n"); lines > 20+5*int(time.Since(began)/hookSaid) {
				t.Errorf("%d lines are logged:\n%s", lines, log)
			}
			if _, err := db.Exec("UPDATE jobs SET state = 'consumed', phase = 'ended', ended_us = 1, consumed_us = 1, next_poll_us = NULL"); err != nil {
				t.Fatal(err)
			}
			was = pollIn(t, db)
			if code, _ := answerTo(t, hookRequest(t, s.http.address, "sandbox", hookSecret, endedEvent(was.theirs), time.Now())); code != http.StatusNoContent || pollIn(t, db) != was {
				t.Errorf("about a job that is over: %d, %+v became %+v", code, was, pollIn(t, db))
			}
		})
	}
}

// storm sends so many genuine and so many forged events from many senders, and
// counts the answers.
func (o *operator) storm(s *server, theirs string, n int) map[int]int {
	const senders = 8
	var mu sync.Mutex
	var group sync.WaitGroup
	codes := map[int]int{}
	for range senders {
		group.Go(func() {
			for range n / senders {
				for _, secret := range []string{hookSecret, hookUnknown} {
					code, _ := answerTo(o.t, hookRequest(o.t, s.http.address, "sandbox", secret, endedEvent(theirs), time.Now()))
					mu.Lock()
					codes[code]++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return codes
}

// Whoever holds requests open keeps others waiting for as long as one may take to
// read, and takes no more memory than so many bodies.
func TestHooksInFlightAreBounded(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.withHooks()
	db := o.tables("sqlite")
	s, _ := o.answering()
	was := postpone(t, db)
	conn, err := net.Dial("tcp", s.http.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	req := hookRequest(t, s.http.address, "sandbox", hookSecret, endedEvent(was.theirs), time.Now())
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n", req.URL.Path)
	_ = req.Header.Write(conn)
	fmt.Fprint(conn, "\r\n{")
	until(t, "a request under way", func() bool { return s.hooks.inFlight.Load() == 1 })
	s.hooks.inFlight.Add(hooksAtOnce - 1) // and all others that may be
	code, said := answerTo(t, hookRequest(t, s.http.address, "sandbox", hookSecret, endedEvent(was.theirs), time.Now()))
	if code != http.StatusServiceUnavailable || !strings.Contains(said, "Retry-After") || pollIn(t, db) != was {
		t.Errorf("one more: %d %s", code, said)
	}
	s.hooks.inFlight.Add(1 - hooksAtOnce)
	_ = conn.Close()
	until(t, "an end of them", func() bool { return s.hooks.inFlight.Load() == 0 })
	if code, _ := answerTo(t, hookRequest(t, s.http.address, "sandbox", hookSecret, endedEvent(was.theirs), time.Now())); code != http.StatusNoContent || pollIn(t, db) == was {
		t.Errorf("behind them: %d", code)
	}
}

// TestServePollsWhatItIsToldOf: the regular schedule takes the pulled poll, and a
// changed secret is taken up by a reload.
func TestServePollsWhatItIsToldOf(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.serveQuickly()
			o.withHooks()
			was := postpone(t, o.tables(database))
			s := o.serve()
			s.wait(`"message":"slot"`, `"schedule":"dispatch"`, `"outcome":"done"`)
			if is := pollIn(t, o.tables(database)); is != was {
				t.Fatalf("polled without a word: %+v became %+v", was, is)
			}
			send := func(secret string) int {
				code, _ := answerTo(t, hookRequest(t, s.address(), "sandbox", secret, endedEvent(was.theirs), time.Now()))
				return code
			}
			if code := send(hookSecret); code != http.StatusNoContent {
				t.Errorf("the webhook: %d", code)
			}
			o.recorded(3)
			if database == "sqlite" {
				o.file("sandbox.webhook", hookUnknown)
				s.signal(syscall.SIGHUP)
				s.wait(`"message":"the configuration was read again`)
				if old, changed := send(hookSecret), send(hookUnknown); old != http.StatusUnauthorized || changed != http.StatusNoContent {
					t.Errorf("behind the change: the old secret %d, the new one %d", old, changed)
				}
				o.file("sandbox.webhook", "whsec_")
				s.signal(syscall.SIGHUP)
				s.wait(`"field":"accounts[0].webhook.secrets[0]"`, `"level":"error"`)
				if code := send(hookUnknown); code != http.StatusNoContent {
					t.Errorf("behind a change for the worse: %d", code)
				}
			}
			s.stop()
			if strings.Contains(s.all(), marker) {
				t.Error("the log holds a secret or a body")
			}
		})
	}
}

func TestServeWithAWrongHookSecretDoesNotStart(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.withHooks()
	o.file("other.webhook", marker)
	for _, args := range [][]string{{"serve"}, {"config", "check"}} {
		if r := o.must(exitUsage, args...); !strings.Contains(r.err, "accounts[1].webhook.secrets[0]: holds no webhook secret") || strings.Contains(r.err, marker) {
			t.Errorf("%v says %s", args, r.err)
		}
	}
}

func TestEveryHookHasAReader(t *testing.T) {
	if have, want := slices.Sorted(maps.Keys(hookEvents)), slices.Sorted(slices.Values(configs.WebhookProviders())); !slices.Equal(have, want) {
		t.Errorf("readers for %v, webhooks for %v", have, want)
	}
}
