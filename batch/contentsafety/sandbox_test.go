package contentsafety_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/contentsafety"
	"rollcall/batch/sandbox"
	"rollcall/batch/sandbox/sandboxtest"
)

const (
	key    = "key-5ca1ab1e0123456789abcdef"
	secret = "secret-0ddba11~Q.fedcba9876543210"
	marker = batchtest.Marker
)

// question asks for what the categories can tell. There is no category for
// unsafe advice and spam.
func question() *batch.Classifier {
	return &batch.Classifier{
		Name: "patient-community/1", Model: "text-analyze",
		Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["self_harm","unsafe_advice","harassment","spam","ok"]}},"required":["label"]}`),
		Thresholds: []batch.Threshold{
			{Category: contentsafety.SelfHarm, Score: 1, Label: "self_harm"},
			{Category: contentsafety.Hate, Score: 4, Label: "harassment"},
			{Category: contentsafety.Violence, Score: 4, Label: "harassment"},
		},
		Otherwise: "ok",
	}
}

func withKey(url string) contentsafety.Config {
	return contentsafety.Config{
		Name: "main", BaseURL: url, Region: "westeurope", Key: func() string { return key },
		FingerprintKey: bytes.Repeat([]byte("k"), 32), AllowLoopback: true, Now: func() time.Time { return sandboxtest.Start },
	}
}

// withEntra takes tokens from a login server, which may be another one.
func withEntra(url, login string) contentsafety.Config {
	cfg := withKey(url)
	cfg.Key = nil
	cfg.Entra = &contentsafety.Entra{Tenant: "contoso.example", ClientID: "app-1", Secret: func() string { return secret }, LoginURL: login}
	return cfg
}

func newClient(t *testing.T, cfg contentsafety.Config) *contentsafety.Client {
	t.Helper()
	c, err := contentsafety.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The contract suite over the sandbox, with either way to prove who calls.
func TestContractOverSandbox(t *testing.T) {
	for name, with := range map[string]func(string) contentsafety.Config{
		"key": withKey, "entra": func(url string) contentsafety.Config { return withEntra(url, url) },
	} {
		t.Run(name, func(t *testing.T) {
			batchtest.RunCaller(t, func(t *testing.T) batchtest.CallerSubject {
				r := sandboxtest.New(t, "analyze", nil)
				return batchtest.CallerSubject{
					Caller: newClient(t, with(r.URL)), Server: r, Classifier: question(), Unreachable: newClient(t, with(sandboxtest.Gone())), NoEcho: true,
					Renews:  name == "entra",
					Secrets: []string{key, secret, "Bearer", "sandbox-token", r.URL},
				}
			})
		})
	}
}

// judged is the answer to a text, as the passes see it.
func judged(t *testing.T, c *contentsafety.Client, text string) batch.Result {
	t.Helper()
	r, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText(text))
	if err != nil {
		t.Fatal(err)
	}
	return batch.Judge(question(), r)
}

func TestLabels(t *testing.T) {
	r := sandboxtest.New(t, "analyze", nil)
	c := newClient(t, withKey(r.URL))
	const rest = `"not_assessed":["unsafe_advice","spam"],`
	for text, want := range map[string]string{
		"the new pump works well":                    `{"label":"ok",` + rest + `"scores":{"Hate":0,"SelfHarm":0,"Sexual":0,"Violence":0},"flagged":[]}`,
		"you idiot":                                  `{"label":"harassment",` + rest + `"scores":{"Hate":5,"SelfHarm":0,"Sexual":0,"Violence":0},"flagged":[]}`,
		"i will find you":                            `{"label":"harassment",` + rest + `"scores":{"Hate":5,"SelfHarm":0,"Sexual":0,"Violence":6},"flagged":[]}`,
		"idiot, i want to die":                       `{"label":"self_harm",` + rest + `"scores":{"Hate":5,"SelfHarm":3,"Sexual":0,"Violence":0},"flagged":[]}`,
		"stop your insulin and drink bleach instead": `{"label":"ok",` + rest + `"scores":{"Hate":0,"SelfHarm":0,"Sexual":0,"Violence":0},"flagged":[]}`,
	} {
		got := judged(t, c, text)
		if got.Outcome != batch.Answered || string(got.Content) != want {
			t.Errorf("%q: %s %s\nwant %s", text, got.Outcome, got.Content, want)
		}
	}
}

// What was not graded is never taken for harmless (F35).
func TestNotGradedIsNotZero(t *testing.T) {
	r := sandboxtest.New(t, "analyze", nil)
	c := newClient(t, withKey(r.URL))
	for fault, want := range map[string]struct {
		outcome batch.Outcome
		code    string
		judged  string // the code after Judge
	}{
		"grade_missing:category=Hate":                {batch.Answered, "", batch.CodeCategoryMissing},
		"grade_absent:category=SelfHarm":             {batch.Answered, "", batch.CodeCategoryMissing},
		"grade_unknown:category=Violence":            {batch.Answered, "", batch.CodeCategoryMissing},
		"grade_unknown:category=Violence,severity=8": {batch.Answered, "", batch.CodeCategoryMissing},
		"grade_twice:category=Hate":                  {batch.Answered, "", batch.CodeCategoryMissing},
		"blocklist_halted:form=empty":                {batch.BadShape, contentsafety.CodeBlocklist, contentsafety.CodeBlocklist},
		"blocklist_halted:form=absent":               {batch.BadShape, batch.CodeScores, batch.CodeScores},
	} {
		r.Faults(fault)
		got, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText("you idiot "+marker))
		if err != nil || got.Outcome != want.outcome || got.Code != want.code {
			t.Errorf("%s: %s, code %q, %v", fault, got.Outcome, got.Code, err)
		}
		if j := batch.Judge(question(), got); j.Outcome != batch.BadShape || j.Code != want.judged {
			t.Errorf("%s: judged as %s, code %q: %s", fault, j.Outcome, j.Code, j.Content)
		}
		if err := c.Probe(t.Context(), question()); batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: the probe says %v", fault, err)
		}
	}
	for _, fault := range []string{"grades_shuffled", "category_unknown", "grade_missing:category=Sexual"} {
		r.Faults(fault) // no threshold asks for Sexual
		if got := judged(t, c, "you idiot"); got.Outcome != batch.Answered || !strings.Contains(string(got.Content), `"label":"harassment"`) {
			t.Errorf("%s: %s, code %q: %s", fault, got.Outcome, got.Code, got.Content)
		}
	}
}

// What is over the quota is a rate limit, with the wait that the service names, and
// is no answer about the text.
func TestOverTheQuota(t *testing.T) {
	for fault, waits := range map[string]bool{"quota:requests=1,within=1h": true, "quota:requests=1,within=1h,told=false": false} {
		r := sandboxtest.New(t, "analyze", nil)
		c := newClient(t, withKey(r.URL))
		r.Faults(fault)
		for try, want := range []batch.Kind{"", batch.RateLimited, batch.RateLimited} {
			_, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText("you idiot "+marker))
			if got := batch.KindOf(err); err != nil && got != want || (err == nil) != (want == "") {
				t.Errorf("%s, call %d: %v", fault, try+1, err)
			}
			if wait := batch.RetryAfter(err); (wait > 0) != (waits && want != "") || wait > time.Hour {
				t.Errorf("%s, call %d: it waits %s", fault, try+1, wait)
			}
		}
	}
}

// A long text is graded in pieces, and the gravest one counts. What stands at a
// cut is seen.
func TestLongTextIsNotCutOff(t *testing.T) {
	r := sandboxtest.New(t, "analyze", nil)
	c := newClient(t, withKey(r.URL))
	for _, at := range []int{0, 9_890, 9_995, 10_000, 24_000, 29_000} {
		words := []rune(strings.Repeat("häuser ", 5_000))
		text := string(words[:at]) + " i want to die " + string(words[at:30_000])
		segments, err := c.Split(question(), batch.NewText(text))
		if err != nil || len(segments) < 3 {
			t.Fatalf("%d pieces, %v", len(segments), err)
		}
		var results []batch.Result
		for _, s := range segments {
			got, err := c.Call(t.Context(), question(), "w1-s1", s)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, got)
		}
		got := batch.Judge(question(), c.Join(question(), results))
		if got.Outcome != batch.Answered || !strings.Contains(string(got.Content), `"label":"self_harm"`) {
			t.Errorf("at %d: %s %s", at, got.Outcome, got.Content)
		}
	}
}

func TestJoinTakesTheHighest(t *testing.T) {
	c := newClient(t, withKey("http://127.0.0.1:1"))
	scores := func(hate, violence int) batch.Result {
		s := map[string]float64{}
		for category, n := range map[string]int{contentsafety.Hate: hate, contentsafety.Violence: violence} {
			if n >= 0 {
				s[category] = float64(n)
			}
		}
		content, err := batch.Scores{Scores: s}.Content()
		if err != nil {
			t.Fatal(err)
		}
		return batch.Result{CustomID: "w1-s1", Outcome: batch.Answered, Content: content}
	}
	for _, tc := range []struct {
		segments []batch.Result
		want     batch.Result
	}{
		{[]batch.Result{scores(1, 6), scores(5, 0), scores(2, 2)}, scores(5, 6)},
		{[]batch.Result{scores(7, 1), scores(0, -1)}, scores(7, -1)}, // not graded in one, so not graded
		{[]batch.Result{scores(-1, 1), scores(7, -1)}, batch.Result{CustomID: "w1-s1", Outcome: batch.BadShape, Code: batch.CodeCategoryMissing}},
		{[]batch.Result{scores(1, 1), {CustomID: "w1-s1", Outcome: batch.Answered, Content: []byte(`{"label":"ok"}`)}}, batch.Result{CustomID: "w1-s1", Outcome: batch.BadShape, Code: batch.CodeScores}},
	} {
		if diff := cmp.Diff(tc.want, c.Join(question(), tc.segments)); diff != "" {
			t.Error(diff)
		}
	}
}

// An application's tokens: one call at a time fetches, a token is replaced before
// it ends, and one that is refused is dropped once.
func TestTokens(t *testing.T) {
	r := sandboxtest.New(t, "analyze", nil)
	cfg := withEntra(r.URL, r.URL)
	cfg.Now = r.Box.Now
	c := newClient(t, cfg)
	ask := func() error {
		_, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
		return err
	}
	want := func(what string, err error, kind batch.Kind, tokens int) {
		t.Helper()
		if kind == "" && err != nil || kind != "" && batch.KindOf(err) != kind || r.Requests("token") != tokens {
			t.Errorf("%s: %v, and %d tokens; want %q and %d", what, err, r.Requests("token"), kind, tokens)
		}
	}
	advance := func(d time.Duration) {
		t.Helper()
		if err := r.Box.Advance(d); err != nil {
			t.Fatal(err)
		}
	}
	errs := make(chan error)
	for range 8 {
		go func() { errs <- ask() }()
	}
	for range 8 {
		want("eight at once", <-errs, "", 1)
	}
	advance(47 * time.Minute)
	want("a token of 47 minutes", ask(), "", 1)
	advance(2 * time.Minute)
	want("before its end", ask(), "", 2)

	r.Faults("unauthorized:op=analyze,times=1")
	want("taken back", ask(), batch.Temporary, 2)
	want("the next one", ask(), "", 3)

	r.Faults("unauthorized:op=analyze,times=2")
	want("taken back again", ask(), batch.Temporary, 3)
	want("and the next one refused", ask(), batch.Denied, 4)
	want("let in again", ask(), "", 5)

	r.Faults("server_error:op=token,status=503")
	advance(50 * time.Minute)
	want("no next one, but the old one holds", ask(), "", 6)
	want("which is not asked for with each call", ask(), "", 6)
	advance(time.Minute)
	want("but again later", ask(), "", 7)
	advance(10 * time.Minute)
	want("until it has ended", ask(), batch.Temporary, 8)
	r.Faults("rate_limit:op=token,retry_after=9")
	err := ask()
	want("too many tokens", err, batch.RateLimited, 9)
	if batch.RetryAfter(err) != 9*time.Second {
		t.Errorf("waiting time %v", batch.RetryAfter(err))
	}
	r.Faults("short_grant:seconds=60")
	want("a short life", ask(), "", 10)
	advance(31 * time.Second)
	want("half of it", ask(), "", 11)
}

// What is wrong with the application is about the account and not about a text.
func TestTokenFaults(t *testing.T) {
	for fault, kind := range map[string]batch.Kind{
		"unauthorized:op=token": batch.Denied, "bad_request:op=token": batch.Denied, "not_found:op=token": batch.Denied,
		"drop_after:op=token": batch.Temporary, "bad_gateway:op=token": batch.Temporary, "answer_cut:op=token": batch.Temporary,
		"empty_object:op=token": batch.BadAnswer, "redirect:op=token": batch.BadAnswer,
	} {
		r := sandboxtest.New(t, "analyze", nil)
		r.Faults(fault)
		_, err := newClient(t, withEntra(r.URL, r.URL)).Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
		if batch.KindOf(err) != kind || r.Requests("analyze") != 0 {
			t.Errorf("%s: %v, and %d calls", fault, err, r.Requests("analyze"))
		}
		if shown := fmt.Sprintf("%+v", err); strings.Contains(shown, secret) || strings.Contains(shown, marker) {
			t.Errorf("%s: the error shows too much: %s", fault, shown)
		}
	}
}

// A secret is asked for before each use, so that a rotated one is taken up.
func TestSecretsAreAskedForEachTime(t *testing.T) {
	r := sandboxtest.New(t, "analyze", func(o *sandbox.Options) { o.Keys = map[string]string{key: "p", secret: "p"} })
	for name, tc := range map[string]struct {
		cfg  contentsafety.Config
		good string
		kind batch.Kind // of a call without a secret
	}{
		"key":   {withKey(r.URL), key, batch.Denied},
		"entra": {withEntra(r.URL, r.URL), secret, batch.Denied},
	} {
		now := "wrong-" + tc.good
		give := func() string { return now }
		if tc.cfg.Entra != nil {
			tc.cfg.Entra.Secret = give
		} else {
			tc.cfg.Key = give
		}
		c := newClient(t, tc.cfg)
		ask := func() error {
			_, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
			return err
		}
		if err := ask(); batch.KindOf(err) != batch.Denied {
			t.Errorf("%s: a wrong one: %v", name, err)
		}
		now = ""
		if err := ask(); batch.KindOf(err) != tc.kind {
			t.Errorf("%s: none: %v", name, err)
		}
		now = tc.good
		if err := ask(); err != nil {
			t.Errorf("%s: the right one: %v", name, err)
		}
	}
}
