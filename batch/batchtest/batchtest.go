// Package batchtest is the suite that every batch.Provider must pass. It says
// in Go what the comments on batch.Provider say in words.
//
// A provider's test gives Run a function that makes a fresh Subject: the
// provider, and a Server by which the suite sees and disturbs the far side.
package batchtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
)

// Marker is in every text that the suite sends. A Server puts it into the
// prose of its errors as well. It must never come out in an error.
const Marker = "PATIENT-TEXT-c41d"

// Subject is one provider and its far side, fresh.
type Subject struct {
	Provider batch.Provider
	Server   Server
	// Secrets must appear in no error: the key, and what else is hidden.
	Secrets []string
	// Unreachable is a provider of the same kind whose far side cannot be
	// connected to, or nil.
	Unreachable batch.Provider
	// Question is what is asked about each text; nil for one to a model. A
	// processor that is not asked needs another.
	Question *batch.Classifier
	// NoEcho: what is asked this way has no place for a token, and a classifier
	// with Echo is refused.
	NoEcho bool
}

// Server is the far side as the suite drives it.
type Server interface {
	// Arm lets the next call of op meet f. It returns false when this server
	// cannot do so, and the check is skipped.
	Arm(op Op, f Fault) bool
	// Calls is how many calls of op have reached the server.
	Calls(op Op) int
	// Jobs is how many jobs exist at the server.
	Jobs() int
	// Files is how many files exist at the server; it is asked only where
	// bodies are uploaded.
	Files() int
	// Plan is called before the job is created that Finish will end as e, for
	// a server that decides at that time. Others need do nothing.
	Plan(e Ending)
	// Finish ends a job.
	Finish(jobID string, e Ending)
	// Strayed is how many calls reached the host that Redirect points at.
	Strayed() int
}

// Limited is a Server at which some endings do not exist: one that judges a
// body before it makes a job never ends a job as BodyRefused.
type Limited interface {
	// Ends says whether a job can end as e.
	Ends(e Ending) bool
}

// Op is a call that a Provider makes.
type Op string

// The calls.
const (
	OpUpload   Op = "upload"
	OpCreate   Op = "create"
	OpStatus   Op = "status"
	OpDownload Op = "download"
	OpDelete   Op = "delete"

	OpListJobs  Op = "list jobs"
	OpListFiles Op = "list files"
	OpCancel    Op = "cancel"
	OpInspect   Op = "inspect"
	OpDeleteJob Op = "delete job"
)

// Fault is what a call meets.
type Fault struct {
	Kind       FaultKind
	RetryAfter time.Duration // with TooMany and TooManyDate; whole seconds; 0 leaves it out
}

// FaultKind names a fault.
type FaultKind string

// The faults. Those that act carry the call out before they go wrong.
const (
	LostRequest  FaultKind = "lost request" // does not act; no answer
	LostAnswer   FaultKind = "lost answer"  // acts; no answer
	GatewayPage  FaultKind = "gateway page" // acts; answers 502 with a page of HTML
	Blank        FaultKind = "blank"        // acts; answers 200 without content
	Conflict     FaultKind = "conflict"     // acts; answers 409
	BadRequest   FaultKind = "bad request"  // documented refusal
	Unauthorized FaultKind = "unauthorized" // documented refusal of the key
	Missing      FaultKind = "missing"      // documented 404
	TooMany      FaultKind = "too many"     // documented rate limit
	NoCredit     FaultKind = "no credit"    // documented end of the money
	Redirect     FaultKind = "redirect"     // does not act; points at another host
	Torn         FaultKind = "torn answer"  // acts; the body ends half-way
	Page         FaultKind = "page"         // acts; answers 200 with a page of HTML

	Forbidden   FaultKind = "forbidden"             // documented 403
	Payment     FaultKind = "payment"               // 402
	TooManyDate FaultKind = "too many, with a date" // 429 with RetryAfter as an HTTP date
	ServerError FaultKind = "server error"          // 500; does not act
	Busy        FaultKind = "busy"                  // 503; does not act
)

func (f Fault) String() string {
	if f.Kind == TooMany && f.RetryAfter > 0 {
		return "too many, with a time"
	}
	return string(f.Kind)
}

// Ending is how a job ends.
type Ending string

// The endings.
const (
	AllAnswered Ending = "all answered"
	OneExpired  Ending = "one expired" // one item, no matter which, was not run
	AllFailed   Ending = "all failed"  // each with a fault of the provider
	BodyRefused Ending = "body refused"
)

// FirstItem is how the custom id of the first item begins, and of no other.
const FirstItem = "w0001"

// The endings in which all items are answered, and the first one otherwise.
const (
	OneRefused     Ending = "one refused"      // by the model
	OneTruncated   Ending = "one truncated"    // at a limit of length
	OneBlocked     Ending = "one blocked"      // by a filter of content
	OneTwice       Ending = "one twice"        // its result is there again
	OneMissing     Ending = "one missing"      // it has no result
	OneStray       Ending = "one stray"        // there is a further result, of an id that was never sent
	OneNameless    Ending = "one nameless"     // its result has no id
	OneMalformed   Ending = "one malformed"    // its result is none, or there is a further one that is none
	OneOtherModel  Ending = "one other model"  // another model answered it
	OneOtherVendor Ending = "one other vendor" // a vendor that is not allowed answered it
)

// Run runs the suite. Each check has a Subject of its own. What is about a
// batch.Inventory, a batch.Inspector or a batch.JobDeleter is skipped for a
// provider that is none, and what is about uploads and files for one that has
// none.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	for _, c := range []struct {
		name  string
		check func(*harness)
	}{
		{"account", account},
		{"capabilities", capabilities},
		{"append request", appendRequest},
		{"append request refuses ids", appendRefuses},
		{"append request with a token", echo},
		{"answers with a token", echoAnswers},
		{"upload", upload},
		{"upload of another length", uploadLength},
		{"upload faults", uploadFaults},
		{"create", create},
		{"create twice", createTwice},
		{"create under a key", createUnderKey},
		{"inline body", inlineBody},
		{"inline body of another length", inlineLength},
		{"inline alone", inlineAlone},
		{"create of unknown outcome", createUnknown},
		{"create refused", createRefused},
		{"nothing reachable", unreachable},
		{"cancelled context", cancelled},
		{"status", status},
		{"status faults", statusFaults},
		{"endings", endings},
		{"odd results", oddResults},
		{"download", downloads},
		{"download faults", downloadFaults},
		{"decode junk", junk},
		{"delete file", deleteFile},
		{"list jobs", listJobs},
		{"list files", listFiles},
		{"list in pages", listPages},
		{"list faults", listFaults},
		{"cancel", cancel},
		{"cancel faults", cancelFaults},
		{"request id", requestID},
		{"inspect", inspect},
		{"inspect faults", inspectFaults},
		{"delete job", deleteJob},
		{"delete job faults", deleteJobFaults},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(&harness{T: t, newSubject: newSubject, Subject: newSubject(t)})
		})
	}
}

// harness is one check with its subject.
type harness struct {
	*testing.T
	Subject
	newSubject func(t *testing.T) Subject
	keys       int // that creations have had: two creations are two submissions
}

// each runs a sub-check with a subject of its own.
func (h *harness) each(name string, check func(*harness)) {
	h.Helper()
	h.Run(name, func(t *testing.T) {
		check(&harness{T: t, newSubject: h.newSubject, Subject: h.newSubject(t)})
	})
}

var classifier = &batch.Classifier{
	Name:            "patient-community/1",
	Model:           "gpt-4.1-mini",
	Instructions:    "Classify the report.\nAnswer in \"JSON\".",
	Schema:          []byte("{\n\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\",\"enum\":[\"ok\",\"spam\"]}},\n\"required\":[\"label\"],\"additionalProperties\":false}"),
	MaxOutputTokens: 600,
}

// items are the custom ids of a body.
var items = []string{"w0001-s1", "w0002-s1", "w0003-s1"}

// texts holds what reports hold that is hard on line formats.
var texts = []string{
	Marker + " plain",
	"",
	Marker + " \"quotes\" \\ back\\\\slashes \\u0041",
	Marker + "\nlines\r\nand\ttabs\x00and\x1b[31mcontrols\x7f",
	Marker + " separators \u2028 and \u2029 and \u0085",
	Marker + " not UTF-8 \xff\xc3(\xed\xa0\x80",
	Marker + " </script> ünïcödé 🩺 \ufeff",
	Marker + `"}"}],"injected":true}`,
}

// body renders a body of all items.
func (h *harness) body() []byte {
	h.Helper()
	var b []byte
	for i, id := range items {
		var err error
		if b, err = h.Provider.AppendRequest(b, h.question(), id, batch.NewText(texts[i])); err != nil {
			h.Fatal(err)
		}
	}
	return b
}

func input(body []byte) batch.Input {
	return batch.Input{
		Name:   "rc-ledger-job-1.jsonl",
		Size:   int64(len(body)),
		Expiry: 72 * time.Hour,
		Write:  func(w io.Writer) error { _, err := w.Write(body); return err },
	}
}

// uploaded returns the id of an uploaded body.
func (h *harness) uploaded() string {
	h.Helper()
	id, err := h.Provider.Upload(h.Context(), input(h.body()))
	if err != nil || id == "" {
		h.Fatalf("upload: %q, %v", id, err)
	}
	return id
}

// creation asks for a job over a body of all items, which it uploads if that is
// how the provider takes it.
func (h *harness) creation() batch.Creation {
	h.Helper()
	h.keys++
	c := batch.Creation{Key: fmt.Sprintf("key-%d", h.keys), Metadata: map[string]string{"rc_job": "job-1"}, OutputExpiry: 72 * time.Hour}
	if h.isInline() {
		in := input(h.body())
		c.Body = &in
	} else {
		c.FileID = h.uploaded()
	}
	return c
}

// created returns a job over a body of all items.
func (h *harness) created() batch.Job {
	h.Helper()
	return h.create(h.creation())
}

func (h *harness) create(c batch.Creation) batch.Job {
	h.Helper()
	job, err := h.Provider.Create(h.Context(), c)
	if err != nil {
		h.Fatal(err)
	}
	return job
}

func (h *harness) status(jobID string) batch.Job {
	h.Helper()
	job, err := h.Provider.Status(h.Context(), jobID)
	if err != nil {
		h.Fatal(err)
	}
	return job
}

// arm skips the check when the server cannot do f.
func (h *harness) arm(op Op, f Fault) {
	h.Helper()
	if !h.Server.Arm(op, f) {
		h.Skipf("this server has no %q for %s", f.Kind, op)
	}
}

// fails checks that err is an *Error of one of the kinds, and that it shows
// nothing that it must not.
func (h *harness) fails(err error, kinds ...batch.Kind) {
	h.Helper()
	if err == nil {
		h.Errorf("no error, want %v", kinds)
		return
	}
	var e *batch.Error
	if !errors.As(err, &e) {
		h.Errorf("%T is not a *batch.Error", err)
		return
	}
	h.discreet(err)
	for _, k := range kinds {
		if e.Kind == k {
			return
		}
	}
	h.Errorf("%v: kind %s, want %v", err, e.Kind, kinds)
}

func (h *harness) discreet(err error) {
	h.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, shown := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
			for _, secret := range append([]string{Marker, "{", "<"}, h.Secrets...) {
				// The verbose forms print Go syntax, with braces of their own.
				if secret == "{" && shown != err.Error() {
					continue
				}
				if strings.Contains(shown, secret) {
					h.Errorf("error shows %q: %s", secret, shown)
				}
			}
		}
	}
}

// lines downloads a file and decodes its lines.
func (h *harness) lines(fileID string) ([]byte, []batch.Result) {
	h.Helper()
	raw, err := h.download(fileID)
	if err != nil {
		h.Fatal(err)
	}
	var results []batch.Result
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			results = append(results, h.Provider.DecodeResult(bytes.TrimSuffix(line, []byte("\n"))))
		}
		if err != nil {
			return raw, results
		}
	}
}

func (h *harness) download(fileID string) ([]byte, error) {
	h.Helper()
	body, size, err := h.Provider.Download(h.Context(), fileID)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err == nil && size >= 0 && int64(len(raw)) != size {
		h.Errorf("%d bytes, and no error, of a body of %d", len(raw), size)
	}
	return raw, err
}

// channel returns the id of a job's file, or fails.
func (h *harness) channel(job batch.Job, c batch.Channel) string {
	h.Helper()
	for _, f := range job.Files {
		if f.Channel == c {
			return f.ID
		}
	}
	h.Fatalf("job %+v has no %s file", job, c)
	return ""
}

func cancelledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
