package openai

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// wireFile is a File object.
type wireFile struct {
	ID        loose.Str     `json:"id"`
	Bytes     loose.Num     `json:"bytes"`
	CreatedAt loose.Instant `json:"created_at"`
	Filename  loose.Str     `json:"filename"`
	Purpose   loose.Str     `json:"purpose"`
	Deleted   loose.Yes     `json:"deleted"`
}

// wireJob is a Batch object.
type wireJob struct {
	ID           loose.Str             `json:"id"`
	Status       loose.Str             `json:"status"`
	InputFileID  loose.Str             `json:"input_file_id"`
	OutputFileID loose.Str             `json:"output_file_id"`
	ErrorFileID  loose.Str             `json:"error_file_id"`
	CreatedAt    loose.Instant         `json:"created_at"`
	ExpiresAt    loose.Instant         `json:"expires_at"`
	Counts       loose.Obj[wireCounts] `json:"request_counts"`
	Errors       faultList             `json:"errors"`
	Metadata     pairs                 `json:"metadata"`
}

type wireCounts struct {
	Total     loose.Num `json:"total"`
	Completed loose.Num `json:"completed"`
	Failed    loose.Num `json:"failed"`
}

// pairs are the first members of an object of strings, no more than a request
// may have.
type pairs struct{ v map[string]loose.Str }

func (p *pairs) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	_, err := loose.EachMember(dec, func(name string) error {
		if len(p.v) == maxMetadata {
			return dec.SkipValue()
		}
		if p.v == nil {
			p.v = make(map[string]loose.Str, maxMetadata)
		}
		var value loose.Str
		err := value.UnmarshalJSONFrom(dec)
		p.v[name] = value
		return err
	})
	return err
}

// faultList is a list of faults: an object with data, or, as some services send
// it, the array itself.
type faultList struct{ v []loose.Obj[wireFault] }

func (f *faultList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == jsontext.KindBeginArray {
		var l loose.List[loose.Obj[wireFault]]
		err := l.UnmarshalJSONFrom(dec)
		f.v = l.V
		return err
	}
	var o loose.Obj[struct {
		Data loose.List[loose.Obj[wireFault]] `json:"data"`
	}]
	err := o.UnmarshalJSONFrom(dec)
	f.v = o.V.Data.V
	return err
}

// wireFault is the error of an envelope, a job or a line.
type wireFault struct {
	Message loose.Str `json:"message"`
	Type    loose.Str `json:"type"`
	Code    loose.Str `json:"code"`
	Line    loose.Num `json:"line"`
	// Azure puts the filter's verdict one level deeper, under either name.
	Inner1 loose.Obj[wireInner] `json:"inner_error"`
	Inner2 loose.Obj[wireInner] `json:"innererror"`
}

type wireInner struct {
	Code loose.Str `json:"code"`
}

// wireEnvelope is the body of an answer that is an error.
type wireEnvelope struct {
	Error loose.Obj[wireFault] `json:"error"`
}

var errShape = errors.New("answer is not in the documented shape")

// parseFault reads an error envelope. The message is looked at for the one
// fault that has no code of its own, and dropped.
func parseFault(body []byte) fault {
	var e wireEnvelope
	if json.Unmarshal(body, &e) != nil || !e.Error.Set {
		return fault{}
	}
	w := e.Error.V
	return fault{
		known:       w.Message.Set || w.Type.Set || w.Code.Set,
		code:        w.Code.V,
		typ:         w.Type.V,
		missingFile: cannotFindFile(w.Message.V),
	}
}

func cannotFindFile(message string) bool {
	m := strings.ToLower(message)
	return strings.HasPrefix(m, "cannot find file") || strings.HasPrefix(m, "no such file object")
}

// parseFile returns the id of an uploaded file.
func parseFile(body []byte, size int64) (string, error) {
	var f wireFile
	if json.Unmarshal(body, &f) != nil || !transport.PathSafe(f.ID.V) {
		return "", errShape
	}
	if f.Bytes.Set && f.Bytes.V > 0 && f.Bytes.V != size {
		return "", errors.New("the provider holds another number of bytes than was sent")
	}
	return f.ID.V, nil
}

func deleted(body []byte, fileID string) bool {
	var f wireFile
	return json.Unmarshal(body, &f) == nil && bool(f.Deleted) && f.ID.V == fileID
}

// echo is what a Batch object repeats of the request that made it.
type echo struct {
	file     string // the input file
	metadata pairs
}

// confirms says whether the answer is about this creation, or the code for why
// not. The input file is a required member. Metadata is compared as far as it
// came back: not every server keeps it.
func (e echo) confirms(cr batch.Creation) (code string, ok bool) {
	if e.file != cr.FileID {
		return codeOtherFile, false
	}
	for k, want := range cr.Metadata {
		if got := e.metadata.v[k]; got.Odd || got.Set && got.V != want {
			return codeOtherMetadata, false
		}
	}
	return "", true
}

// parseJob reads a Batch object.
func parseJob(body []byte) (job batch.Job, told echo, err error) {
	var w wireJob
	if json.Unmarshal(body, &w) != nil {
		return batch.Job{}, echo{}, errShape
	}
	return jobOf(&w)
}

// jobOf is the job that an object stands for. One without an id or a status is
// no job, whatever else it holds.
func jobOf(w *wireJob) (job batch.Job, told echo, err error) {
	if !transport.PathSafe(w.ID.V) || w.Status.V == "" {
		return batch.Job{}, echo{}, errShape
	}
	job = batch.Job{
		ID:      w.ID.V,
		Status:  batch.SafeCode(w.Status.V),
		Counts:  batch.Counts{Total: w.Counts.V.Total.V, Completed: w.Counts.V.Completed.V, Failed: w.Counts.V.Failed.V},
		Expires: w.ExpiresAt.T,
	}
	told = echo{file: w.InputFileID.V, metadata: w.Metadata}
	job.Phase, job.Known = phase(w.Status.V)
	if job.Phase == batch.PhaseRunning {
		return job, told, nil
	}
	job.Files, err = files(w)
	if job.Phase == batch.PhaseInvalid {
		settleFailed(&job, w)
	}
	return job, told, err
}

// settleFailed asks whether a failed job ran. The word means that the body was
// refused and nothing ran, so that its texts may be sent again; results, or
// the count of them, are proof of the contrary, whatever the word. The ids of
// result files are no such proof beside a reason for the whole body and counts
// of none: Azure gives both ids to a job that never began, for a full quota
// among others.
func settleFailed(job *batch.Job, w *wireJob) {
	all, c := faults(w.Errors.v), w.Counts.V
	none := c.Completed.Set && c.Completed.V == 0 && c.Failed.V == 0 &&
		slices.ContainsFunc(all, func(f batch.Fault) bool { return f.Line == 0 && f.Code != "" })
	if job.Counts.Completed > 0 || len(job.Files) > 0 && !none {
		job.Phase = batch.PhaseEnded
		return
	}
	job.Faults, job.Files = all, nil
}

// phase compares without case: some servers write Completed or COMPLETED.
func phase(status string) (p batch.Phase, known bool) {
	switch strings.ToLower(status) {
	case "validating", "in_progress", "finalizing", "cancelling":
		return batch.PhaseRunning, true
	case "completed", "expired", "cancelled":
		return batch.PhaseEnded, true
	case "failed":
		return batch.PhaseInvalid, true
	}
	return batch.PhaseRunning, false
}

// files leaves out an id that is absent, null or empty. An id that is there
// but cannot be used is an error: leaving it out would lose its results.
func files(w *wireJob) ([]batch.ResultFile, error) {
	var out []batch.ResultFile
	for _, f := range []struct {
		channel batch.Channel
		id      loose.Str
	}{{batch.ChannelOutput, w.OutputFileID}, {batch.ChannelError, w.ErrorFileID}} {
		switch {
		case f.id.Odd:
			return nil, errShape
		case f.id.V == "":
		case !transport.PathSafe(f.id.V):
			return nil, errShape
		default:
			out = append(out, batch.ResultFile{Channel: f.channel, ID: f.id.V})
		}
	}
	return out, nil
}

func faults(data []loose.Obj[wireFault]) []batch.Fault {
	out := make([]batch.Fault, 0, len(data))
	for _, d := range data {
		f := batch.Fault{Code: batch.SafeCode(d.V.Code.V)}
		if cannotFindFile(d.V.Message.V) {
			f.Code = CodeFileNotFound
		}
		if n := d.V.Line.V; n > 0 && n < 1<<31 {
			f.Line = int(n)
		}
		out = append(out, f)
	}
	return out
}
