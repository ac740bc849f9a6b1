package openai

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// allocated is how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// speaking is a client that only renders and decodes.
func speaking(e Endpoint) *Client { return &Client{cfg: Config{Endpoint: e}} }

// elements is a JSON array of n elements.
func elements(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// A long array in a short answer must not cost many times its length.
func TestLongArraysAreCheap(t *testing.T) {
	const n, most = 1_000_000, 2 << 20
	for name, array := range map[string]string{"empty objects": elements(n, "{}"), "numbers": elements(n, "0"), "nulls": elements(n, "null")} {
		body := []byte(`{"id":"batch_1","status":"failed","errors":{"data":` + array + `}}`)
		got := allocated(func() {
			if job, _, err := parseJob(body); err != nil || len(job.Faults) != loose.MaxList {
				t.Errorf("faults, %s: %d of them, %v", name, len(job.Faults), err)
			}
		})
		if got > most {
			t.Errorf("faults, %s: %d bytes for an answer of %d", name, got, len(body))
		}
		line := []byte(`{"custom_id":"w1-s1","response":{"status_code":200,"body":{"object":"chat.completion","choices":` + array + `}}}`)
		got = allocated(func() {
			if r := new(Client).DecodeResult(line); r.Outcome != batch.BadShape || r.CustomID != "w1-s1" {
				t.Errorf("choices, %s: %+v", name, r)
			}
		})
		if got > most {
			t.Errorf("choices, %s: %d bytes for a line of %d", name, got, len(line))
		}
		for where, body := range map[string]string{
			"output":  `{"object":"response","status":"completed","output":` + array + `}`,
			"content": `{"object":"response","status":"completed","output":[{"type":"message","content":` + array + `}]}`,
			"results": `{"results":` + array + `}`,
		} {
			line := []byte(`{"custom_id":"w1-s1","response":{"status_code":200,"body":` + body + `}}`)
			got = allocated(func() {
				for _, e := range []Endpoint{EndpointResponses, EndpointModerations} {
					if r := speaking(e).DecodeResult(line); r.Outcome != batch.BadShape || r.CustomID != "w1-s1" {
						t.Errorf("%s, %s: %+v", where, name, r)
					}
				}
			})
			if got > 2*most {
				t.Errorf("%s, %s: %d bytes for a line of %d", where, name, got, len(line))
			}
		}
	}
}

// Metadata is kept up to what a request may have, and read to its end.
func TestMetadataIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, `,"k%d":"%s"`, i, "some value that takes a little room")
	}
	body := []byte(`{"id":"batch_1","status":"validating","metadata":{` + b.String()[1:] + `}}`)
	_, told, err := parseJob(body)
	if err != nil || len(told.metadata.v) != maxMetadata || told.metadata.v["k15"].V == "" {
		t.Errorf("%d pairs, %v", len(told.metadata.v), err)
	}
	if _, _, err := parseJob(append(body[:len(body)-2], `,"k49999":"again"}}`...)); err == nil {
		t.Error("a name may stand twice behind the bound")
	}
}

// What lies behind the bound is read, if not kept: it must be JSON.
func TestLongArraysAreReadToTheEnd(t *testing.T) {
	whole := `{"id":"batch_1","status":"failed","errors":{"data":` + elements(loose.MaxList, `{"code":"c","line":1}`) + `}}`
	if job, _, err := parseJob([]byte(whole)); err != nil || len(job.Faults) != loose.MaxList || job.Faults[loose.MaxList-1] != (batch.Fault{Line: 1, Code: "c"}) {
		t.Errorf("%d faults, %v", len(job.Faults), err)
	}
	for _, end := range []string{`,{"code"`, `,{"code":"c","code":"c"}]}}`, `,]}}`, `} }`, ``} {
		if _, _, err := parseJob([]byte(strings.TrimSuffix(whole, "]}}") + end)); err == nil {
			t.Errorf("accepted with the end %q", end)
		}
	}
}

func TestLongAnswersAreRefused(t *testing.T) {
	answer := func(size int) string {
		head, tail := `{"id":"batch_1","status":"validating","input_file_id":"file-1","x":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	fits, over := fixed(t, 200, nil, answer(maxAnswer)), fixed(t, 200, nil, answer(maxAnswer+1))
	creation := batch.Creation{FileID: "file-1"}
	if _, err := fits.Status(t.Context(), "batch_1"); err != nil {
		t.Error(err)
	}
	if _, err := fits.Create(t.Context(), creation); err != nil {
		t.Error(err)
	}
	if _, err := over.Status(t.Context(), "batch_1"); batch.KindOf(err) != batch.BadAnswer || !errors.Is(err, transport.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := over.Create(t.Context(), creation); batch.KindOf(err) != batch.UnknownOutcome || !errors.Is(err, transport.ErrTooLarge) {
		t.Error(err)
	}
}
