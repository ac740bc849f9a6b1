package infrai_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
)

// As shipped, and with any one gate closed, nothing that holds text leaves and
// no connection is made; what is known can be looked up all the same.
func TestClosedGates(t *testing.T) {
	without := func(change func(*infrai.Contract)) func(*infrai.Config) {
		return func(c *infrai.Config) {
			pin := *c.Pin
			change(&pin.Contract)
			for claim := range pin.Evidence { // what is not claimed has no evidence
				if claim == "item_id_path" && pin.Contract.ItemIDPath == "" || claim == "states" && len(pin.Contract.States.Pending) == 0 ||
					len(claim) > 8 && claim[:8] == "results." && (pin.Contract.Results == nil || claim == "results.item_vendor_path" && pin.Contract.Results.ItemVendorPath == "") {
					forget(&pin, claim)
				}
			}
			c.Pin = &pin
		}
	}
	for name, tc := range map[string]struct {
		code  string
		close func(*infrai.Config)
	}{
		"as shipped": {"gate_pin_missing", func(c *infrai.Config) { c.Pin, c.Vendors, c.DataClass = nil, nil, "" }},
		"no pin":     {"gate_pin_missing", func(c *infrai.Config) { c.Pin = nil }},
		"no item id": {"gate_item_not_pinned", without(func(c *infrai.Contract) { c.ItemIDPath = "" })},
		"no states":  {"gate_states_not_pinned", without(func(c *infrai.Contract) { c.States = infrai.States{} })},
		"no results": {"gate_results_not_pinned", without(func(c *infrai.Contract) { c.Results = nil })},
		"no vendor of an item": {"gate_item_vendor_not_pinned", without(func(c *infrai.Contract) {
			r := *c.Results
			r.ItemVendorPath = ""
			c.Results = &r
		})},
		"no vendors":    {"gate_vendors_empty", func(c *infrai.Config) { c.Vendors = nil }},
		"no data class": {"gate_data_class_not_permitted", func(c *infrai.Config) { c.DataClass = "" }},
		"health":        {"gate_data_class_not_permitted", func(c *infrai.Config) { c.DataClass = batch.DataHealth }},
		"a made-up one": {"gate_data_class_not_permitted", func(c *infrai.Config) { c.DataClass = "public" }},
	} {
		t.Run(name, func(t *testing.T) {
			open := newRig(t, assumed(t))
			cr := open.creation("k1")
			job := open.created("k0")
			shut := newClient(t, open.URL, tc.close, func(c *infrai.Config) { c.Record = func(string, string) { open.dialled.Add(1) } })
			if shut.Gate() != tc.code {
				t.Errorf("gate %q, want %q", shut.Gate(), tc.code)
			}
			before := open.dialled.Load()
			_, err := shut.Create(t.Context(), cr)
			wants(t, err, batch.Denied, tc.code)
			dst, err := shut.AppendRequest([]byte("kept"), question, "w1-s1", batch.NewText(marker))
			wants(t, err, batch.Denied, tc.code)
			if n := open.dialled.Load() - before; n != 0 || string(dst) != "kept" || open.Calls(batchtest.OpCreate) != 1 {
				t.Errorf("%d connections, %q, %d creates", n, dst, open.Calls(batchtest.OpCreate))
			}
			got, err := shut.Status(t.Context(), job.ID)
			if err != nil || got.Phase != batch.PhaseRunning {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestConfigIsRefused(t *testing.T) {
	assumedElsewhere := infrai.Config{Name: "x", APIKey: func() string { return testKey }, FingerprintKey: bytes.Repeat([]byte("k"), 16)}
	if _, err := infrai.New(assumedElsewhere); err != nil {
		t.Errorf("as shipped: %v", err)
	}
	for name, change := range map[string]func(*infrai.Config){
		"an assumed pin elsewhere": func(c *infrai.Config) { c.Pin = assumed(t) },
		"a changed pin": func(c *infrai.Config) {
			c.AllowLoopback = true
			c.Pin = assumed(t, func(p *infrai.Pin) { p.Contract.StatePath = "status" })
		},
		"vendor auto":           func(c *infrai.Config) { c.Vendors = []string{"openai", "Auto"} },
		"any vendor":            func(c *infrai.Config) { c.Vendors = []string{"*"} },
		"empty vendor":          func(c *infrai.Config) { c.Vendors = []string{""} },
		"region auto":           func(c *infrai.Config) { c.Region = "auto" },
		"key with a line feed":  func(c *infrai.Config) { c.APIKey = func() string { return testKey + "\n" } },
		"a path":                func(c *infrai.Config) { c.BaseURL = "https://api.infrai.cc/v1" },
		"a key in the URL":      func(c *infrai.Config) { c.BaseURL = "https://" + testKey + "@api.infrai.cc" },
		"no name":               func(c *infrai.Config) { c.Name = "" },
		"short fingerprint key": func(c *infrai.Config) { c.FingerprintKey = nil },
	} {
		cfg := assumedElsewhere
		change(&cfg)
		if _, err := infrai.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		} else {
			for _, secret := range []string{testKey} {
				if bytes.Contains([]byte(err.Error()), []byte(secret)) {
					t.Errorf("%s: the error shows the key", name)
				}
			}
		}
	}
}

// A model that lets the provider choose is refused before any call (F18).
func TestExplicitModel(t *testing.T) {
	r := newRig(t, assumed(t))
	for model, code := range map[string]string{
		"": "model_not_explicit", "auto": "model_not_explicit", "AUTO": "model_not_explicit", "infrai/auto": "model_not_explicit", " ": "model_not_explicit",
		"deepseek-chat": "model_not_pinned",
	} {
		q := *question
		q.Model = model
		_, err := r.AppendRequest(nil, &q, "w1-s1", batch.NewText(marker))
		wants(t, err, batch.Rejected, code)
	}
	if r.dialled.Load() != 0 {
		t.Error("a connection was made")
	}
}

// Capabilities follow the pin.
func TestCapabilities(t *testing.T) {
	for name, tc := range map[string]struct {
		pin    *infrai.Pin
		settle batch.Settlement
		window time.Duration
		class  []batch.DataClass
	}{
		"no pin":       {nil, batch.SettleByOperator, 0, []batch.DataClass{batch.DataSynthetic}},
		"declared":     {assumed(t), batch.SettleByKey, 24 * time.Hour, []batch.DataClass{batch.DataSynthetic}},
		"not declared": {assumed(t, undeclared), batch.SettleByOperator, 0, []batch.DataClass{batch.DataSynthetic}},
		"more classes": {assumed(t, func(p *infrai.Pin) {
			p.Classes, p.Agreement = []batch.DataClass{batch.DataSynthetic, batch.DataPersonal}, "contract of 2026-02-11"
		}), batch.SettleByKey, 24 * time.Hour, []batch.DataClass{batch.DataPersonal, batch.DataSynthetic}},
	} {
		c := newClient(t, "http://127.0.0.1:1", func(c *infrai.Config) { c.Pin = tc.pin }).Capabilities()
		if c.Settlement != tc.settle || c.Limits.KeyWindow != tc.window || len(c.Classes) != len(tc.class) || c.Classes[0] != tc.class[0] ||
			c.Handover != batch.HandoverInline || c.Deletion != (batch.Deletion{}) || c.ResultsFor != 0 || c.Limits.Items != 100 || c.Limits.Bytes != 4_000_000 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Documents that have changed stop submits and nothing else.
func TestCheck(t *testing.T) {
	r := newRig(t, assumed(t))
	if err := r.Check(t.Context()); err != nil || r.Gate() != "" {
		t.Errorf("%v, gate %q", err, r.Gate())
	}
	job, cr := r.created("k1"), r.creation("k2")
	r.Faults("bad_gateway:op=any,times=1", "infrai_drift:times=1")
	if _, err := r.Status(t.Context(), job.ID); err == nil { // takes the first fault
		t.Error("no error")
	}
	wants(t, r.Check(t.Context()), batch.Denied, "differs.ai.batch.submit")
	_, err := r.Create(t.Context(), cr)
	wants(t, err, batch.Denied, "gate_documents_differ")
	if got := r.look(job.ID); !got.Known {
		t.Errorf("%+v", got)
	}
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.Create(t.Context(), cr); err != nil {
		t.Error(err)
	}
	r.obeyed() // discovery went without the key

	other := assumed(t, func(p *infrai.Pin) {
		p.Documents = append(p.Documents, infrai.Document{ID: "ai.batch.gone", SHA256: sum("{}"), Raw: "{}"})
	})
	c := newClient(t, r.URL, func(c *infrai.Config) { c.Pin = other })
	wants(t, c.Check(t.Context()), batch.Denied, "differs.ai.batch.gone")
	none := newClient(t, r.URL, func(c *infrai.Config) { c.Pin = nil })
	wants(t, none.Check(t.Context()), batch.Denied, "gate_pin_missing")
}

// A check that got no answer changes nothing.
func TestCheckUnanswered(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	if err := c.Check(t.Context()); batch.KindOf(err) != batch.Temporary || c.Gate() != "" {
		t.Errorf("%v, gate %q", err, c.Gate())
	}
}

// The documented profile knows no items and no results: nothing is sent, and no
// end is made up.
func TestDocumentedProfile(t *testing.T) {
	r := newRig(t, nil)
	if r.Gate() != "gate_pin_missing" {
		t.Fatal(r.Gate())
	}
	r.Advance(48 * time.Hour)
	_, err := r.Status(t.Context(), "b_1")
	wants(t, err, batch.NotFound, "NOT_FOUND")
	_, _, err = r.Download(t.Context(), "b_1")
	wants(t, err, batch.Denied, "gate_results_not_pinned")
	if res := r.DecodeResult([]byte(`{"ref":"w1-s1","outcome":"succeeded"}`)); res.Outcome != batch.Unreadable {
		t.Error(res.Outcome)
	}
	// Even with a pin, this server has no results to give.
	pinned := newClient(t, r.URL)
	body, err := pinned.AppendRequest(nil, question, "w1-s1", batch.NewText(marker))
	if err != nil {
		t.Fatal(err)
	}
	job, err := pinned.Create(t.Context(), batch.Creation{Key: "k1", Body: &batch.Input{Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }}})
	if err != nil || job.Known || job.Phase != batch.PhaseRunning {
		t.Fatalf("%+v, %v: the state is not one of the pin", job, err)
	}
	if _, _, err := pinned.Download(t.Context(), job.ID); batch.KindOf(err) != batch.NotFound {
		t.Error(err)
	}
	// Without a pin, a finished job is one in a state that nobody has explained.
	r.Advance(time.Hour)
	if got := r.look(job.ID); got.Known || got.Phase != batch.PhaseRunning || got.Status != "completed" || len(got.Files) != 0 {
		t.Errorf("%+v", got)
	}
}
