package anthropic

import (
	"math"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// wireJob is a message batch.
type wireJob struct {
	ID      loose.Str             `json:"id"`
	Type    loose.Str             `json:"type"`
	Status  loose.Str             `json:"processing_status"`
	Created loose.Instant         `json:"created_at"`
	Expires loose.Instant         `json:"expires_at"`
	Counts  loose.Obj[wireCounts] `json:"request_counts"`
}

type wireCounts struct {
	Processing loose.Num `json:"processing"`
	Succeeded  loose.Num `json:"succeeded"`
	Errored    loose.Num `json:"errored"`
	Canceled   loose.Num `json:"canceled"`
	Expired    loose.Num `json:"expired"`
}

// wireEnvelope is the body of an answer that is an error, and the error of a
// result: there it is one level deeper.
type wireEnvelope struct {
	Type  loose.Str            `json:"type"`
	Error loose.Obj[wireFault] `json:"error"`
}

type wireFault struct {
	Type    loose.Str              `json:"type"`
	Details loose.Obj[wireDetails] `json:"details"`
}

type wireDetails struct {
	Code loose.Str `json:"error_code"`
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
	w := &e.Error.V
	return fault{known: e.Type.V == "error" && w.Type.V != "", class: w.Type.V, code: w.Details.V.Code.V}
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
	if !transport.PathSafe(w.ID.V) || w.Type.V != "message_batch" || w.Status.V == "" {
		return batch.Job{}, errShape
	}
	job := batch.Job{ID: w.ID.V, Status: batch.SafeCode(w.Status.V), Phase: batch.PhaseRunning, Counts: counts(&w.Counts.V), Expires: w.Expires.T}
	switch w.Status.V {
	case "in_progress", "canceling":
		job.Known = true
	case "ended":
		job.Known, job.Phase = true, batch.PhaseEnded
		job.Files = []batch.ResultFile{{Channel: batch.ChannelOutput, ID: w.ID.V}}
	}
	return job, nil
}

// counts adds up what the five words mean; their sum is the number of requests.
func counts(w *wireCounts) batch.Counts {
	c := batch.Counts{Completed: max(w.Succeeded.V, 0)}
	for _, n := range []loose.Num{w.Errored, w.Canceled, w.Expired} {
		c.Failed = plus(c.Failed, n.V)
	}
	c.Total = plus(plus(c.Completed, c.Failed), w.Processing.V)
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
		ID   loose.Str `json:"id"`
		Type loose.Str `json:"type"`
	}
	return json.Unmarshal(body, &w) == nil && w.ID.V == jobID && w.Type.V == "message_batch_deleted"
}
