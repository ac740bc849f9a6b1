package openai

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// wireFile is a File object.
type wireFile struct {
	ID        str     `json:"id"`
	Bytes     num     `json:"bytes"`
	CreatedAt instant `json:"created_at"`
	Filename  str     `json:"filename"`
	Purpose   str     `json:"purpose"`
	Deleted   yes     `json:"deleted"`
}

// wireJob is a Batch object.
type wireJob struct {
	ID           str             `json:"id"`
	Status       str             `json:"status"`
	InputFileID  str             `json:"input_file_id"`
	OutputFileID str             `json:"output_file_id"`
	ErrorFileID  str             `json:"error_file_id"`
	CreatedAt    instant         `json:"created_at"`
	ExpiresAt    instant         `json:"expires_at"`
	Counts       obj[wireCounts] `json:"request_counts"`
	Errors       faultList       `json:"errors"`
	Metadata     pairs           `json:"metadata"`
}

type wireCounts struct {
	Total     num `json:"total"`
	Completed num `json:"completed"`
	Failed    num `json:"failed"`
}

// faultList is a list of faults: an object with data, or, as some services send
// it, the array itself.
type faultList struct{ v []obj[wireFault] }

func (f *faultList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == jsontext.KindBeginArray {
		var l list[obj[wireFault]]
		err := l.UnmarshalJSONFrom(dec)
		f.v = l.v
		return err
	}
	var o obj[struct {
		Data list[obj[wireFault]] `json:"data"`
	}]
	err := o.UnmarshalJSONFrom(dec)
	f.v = o.v.Data.v
	return err
}

// wireFault is the error of an envelope, a job or a line.
type wireFault struct {
	Message str `json:"message"`
	Type    str `json:"type"`
	Code    str `json:"code"`
	Line    num `json:"line"`
	// Azure puts the filter's verdict one level deeper, under either name.
	Inner1 obj[wireInner] `json:"inner_error"`
	Inner2 obj[wireInner] `json:"innererror"`
}

type wireInner struct {
	Code str `json:"code"`
}

// wireEnvelope is the body of an answer that is an error.
type wireEnvelope struct {
	Error obj[wireFault] `json:"error"`
}

var errShape = errors.New("answer is not in the documented shape")

// parseFault reads an error envelope. The message is looked at for the one
// fault that has no code of its own, and dropped.
func parseFault(body []byte) fault {
	var e wireEnvelope
	if json.Unmarshal(body, &e) != nil || !e.Error.set {
		return fault{}
	}
	w := e.Error.v
	return fault{
		known:       w.Message.set || w.Type.set || w.Code.set,
		code:        w.Code.v,
		typ:         w.Type.v,
		missingFile: cannotFindFile(w.Message.v),
	}
}

func cannotFindFile(message string) bool {
	m := strings.ToLower(message)
	return strings.HasPrefix(m, "cannot find file") || strings.HasPrefix(m, "no such file object")
}

// parseFile returns the id of an uploaded file.
func parseFile(body []byte, size int64) (string, error) {
	var f wireFile
	if json.Unmarshal(body, &f) != nil || !transport.PathSafe(f.ID.v) {
		return "", errShape
	}
	if f.Bytes.set && f.Bytes.v > 0 && f.Bytes.v != size {
		return "", errors.New("the provider holds another number of bytes than was sent")
	}
	return f.ID.v, nil
}

func deleted(body []byte, fileID string) bool {
	var f wireFile
	return json.Unmarshal(body, &f) == nil && bool(f.Deleted) && f.ID.v == fileID
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
		if got := e.metadata.v[k]; got.odd || got.set && got.v != want {
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
	if !transport.PathSafe(w.ID.v) || w.Status.v == "" {
		return batch.Job{}, echo{}, errShape
	}
	job = batch.Job{
		ID:      w.ID.v,
		Status:  batch.SafeCode(w.Status.v),
		Counts:  batch.Counts{Total: w.Counts.v.Total.v, Completed: w.Counts.v.Completed.v, Failed: w.Counts.v.Failed.v},
		Expires: w.ExpiresAt.t,
	}
	told = echo{file: w.InputFileID.v, metadata: w.Metadata}
	job.Phase, job.Known = phase(w.Status.v)
	if job.Phase == batch.PhaseRunning {
		return job, told, nil
	}
	job.Files, err = files(w)
	if job.Phase == batch.PhaseInvalid {
		settleFailed(&job, w.Errors.v)
	}
	return job, told, err
}

// settleFailed asks whether a failed job ran. The word means that the body was
// refused and nothing ran, so that its texts may be sent again; results, or
// the count of them, are proof of the contrary, whatever the word.
func settleFailed(job *batch.Job, data []obj[wireFault]) {
	if len(job.Files) > 0 || job.Counts.Completed > 0 {
		job.Phase = batch.PhaseEnded
		return
	}
	job.Faults = faults(data)
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
		id      str
	}{{batch.ChannelOutput, w.OutputFileID}, {batch.ChannelError, w.ErrorFileID}} {
		switch {
		case f.id.odd:
			return nil, errShape
		case f.id.v == "":
		case !transport.PathSafe(f.id.v):
			return nil, errShape
		default:
			out = append(out, batch.ResultFile{Channel: f.channel, ID: f.id.v})
		}
	}
	return out, nil
}

func faults(data []obj[wireFault]) []batch.Fault {
	out := make([]batch.Fault, 0, len(data))
	for _, d := range data {
		f := batch.Fault{Code: batch.SafeCode(d.v.Code.v)}
		if cannotFindFile(d.v.Message.v) {
			f.Code = CodeFileNotFound
		}
		if n := d.v.Line.v; n > 0 && n < 1<<31 {
			f.Line = int(n)
		}
		out = append(out, f)
	}
	return out
}
