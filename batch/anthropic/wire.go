package anthropic

import (
	"math"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// wireJob is a message batch.
type wireJob struct {
	ID      str             `json:"id"`
	Type    str             `json:"type"`
	Status  str             `json:"processing_status"`
	Created instant         `json:"created_at"`
	Expires instant         `json:"expires_at"`
	Counts  obj[wireCounts] `json:"request_counts"`
}

type wireCounts struct {
	Processing num `json:"processing"`
	Succeeded  num `json:"succeeded"`
	Errored    num `json:"errored"`
	Canceled   num `json:"canceled"`
	Expired    num `json:"expired"`
}

// wireEnvelope is the body of an answer that is an error, and the error of a
// result: there it is one level deeper.
type wireEnvelope struct {
	Type  str            `json:"type"`
	Error obj[wireFault] `json:"error"`
}

type wireFault struct {
	Type    str              `json:"type"`
	Details obj[wireDetails] `json:"details"`
}

type wireDetails struct {
	Code str `json:"error_code"`
}

// parseFault reads an error envelope. Its message is not looked at.
func parseFault(body []byte) fault {
	var e wireEnvelope
	if json.Unmarshal(body, &e) != nil {
		return fault{}
	}
	return e.fault()
}

func (e *wireEnvelope) fault() fault {
	w := &e.Error.v
	return fault{known: e.Type.v == "error" && w.Type.v != "", class: w.Type.v, code: w.Details.v.Code.v}
}

// parseJob reads a message batch.
func parseJob(body []byte) (batch.Job, error) {
	var w wireJob
	if json.Unmarshal(body, &w) != nil {
		return batch.Job{}, errShape
	}
	return jobOf(&w)
}

// jobOf is the job that an object stands for. The address of the results is made
// from the id: what the object gives as results_url is not looked at, because the
// key would go to wherever it points.
//
// The list of results is there for a job that ended without success too. That
// they have been archived shows when they are asked for.
func jobOf(w *wireJob) (batch.Job, error) {
	if !transport.PathSafe(w.ID.v) || w.Type.v != "message_batch" || w.Status.v == "" {
		return batch.Job{}, errShape
	}
	job := batch.Job{ID: w.ID.v, Status: batch.SafeCode(w.Status.v), Phase: batch.PhaseRunning, Counts: counts(&w.Counts.v), Expires: w.Expires.t}
	switch w.Status.v {
	case "in_progress", "canceling":
		job.Known = true
	case "ended":
		job.Known, job.Phase = true, batch.PhaseEnded
		job.Files = []batch.ResultFile{{Channel: batch.ChannelOutput, ID: w.ID.v}}
	}
	return job, nil
}

// counts adds up what the five words mean; their sum is the number of requests.
func counts(w *wireCounts) batch.Counts {
	c := batch.Counts{Completed: max(w.Succeeded.v, 0)}
	for _, n := range []num{w.Errored, w.Canceled, w.Expired} {
		c.Failed = plus(c.Failed, n.v)
	}
	c.Total = plus(plus(c.Completed, c.Failed), w.Processing.v)
	return c
}

// plus adds what a provider says, which may be anything.
func plus(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// deleted says whether the answer confirms that this job was deleted.
func deleted(body []byte, jobID string) bool {
	var w struct {
		ID   str `json:"id"`
		Type str `json:"type"`
	}
	return json.Unmarshal(body, &w) == nil && w.ID.v == jobID && w.Type.v == "message_batch_deleted"
}
