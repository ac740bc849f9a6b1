package sandbox

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const (
	maxPairs    = 16
	maxKeyLen   = 64
	maxValueLen = 512
)

type createBody struct {
	InputFile    string         `json:"input_file_id"`
	Endpoint     string         `json:"endpoint"`
	Window       string         `json:"completion_window"`
	Metadata     map[string]any `json:"metadata"`
	OutputExpiry *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"output_expires_after"`
}

func (s *Server) createJob(c *call) (answer, error) {
	var body createBody
	if err := json.UnmarshalRead(http.MaxBytesReader(nil, c.Body, 1<<20), &body, json.RejectUnknownMembers(true)); err != nil {
		if errors.Is(err, json.ErrUnknownName) {
			return answer{}, badRequest("unknown_parameter", "", "Unknown parameter.")
		}
		return answer{}, badRequest("", "", "We could not parse the JSON body of your request.")
	}
	metadata, expiry, err := body.check(s.flavour)
	if err != nil {
		return answer{}, err
	}
	faults := append(s.faults.takeAll(func(f Fault, sp spec) bool { return sp.stage == ofJob }), s.flavour.jobFaults()...)
	j := &job{
		ID: s.ids.next("batch_"), Project: c.project, Endpoint: body.Endpoint, InputFile: body.InputFile, Metadata: metadata,
		OutputExpiry: int64(expiry / time.Second), Created: c.now, Faults: faults, Timing: timingFor(s.latencies, faults),
	}
	if f, ok := j.fault("cancel_midway"); ok {
		at := j.checkedAt().Add(time.Duration(float64(j.Timing.Running) * f.fraction("share")))
		j.CancelAsked = &at
	}
	s.mu.Lock()
	j.Seq = s.nextSeq()
	s.mu.Unlock()
	if err := s.saveJob(j); err != nil {
		return answer{}, err
	}
	s.mu.Lock()
	s.jobs[j.ID] = j
	s.mu.Unlock()
	return answer{id: j.ID, body: j.body(c.now)}, nil
}

// check applies the documented rules. Whether the file exists is not among
// them: that shows in validation.
func (b createBody) check(fl Flavour) (metadata map[string]string, expiry time.Duration, err error) {
	switch {
	case b.InputFile == "":
		return nil, 0, missingParam("input_file_id")
	case b.Endpoint == "":
		return nil, 0, missingParam("endpoint")
	case !fl.hasEndpoint(b.Endpoint):
		return nil, 0, invalidParam("endpoint", "not an endpoint for batches")
	case b.Window == "":
		return nil, 0, missingParam("completion_window")
	case b.Window != "24h":
		return nil, 0, invalidParam("completion_window", "must be 24h")
	}
	expiry = defaultExpiry
	if o := b.OutputExpiry; o != nil {
		if expiry, err = fl.checkExpiry("output_expires_after", o.Anchor, o.Seconds); err != nil {
			return nil, 0, err
		}
	}
	metadata, err = checkMetadata(b.Metadata)
	return metadata, expiry, err
}

func checkMetadata(in map[string]any) (map[string]string, error) {
	if in == nil {
		return nil, nil
	}
	if len(in) > maxPairs {
		return nil, invalidParam("metadata", "more than 16 pairs")
	}
	out := map[string]string{}
	for k, v := range in {
		text, ok := v.(string)
		switch {
		case !ok:
			return nil, invalidParam("metadata", "a value is not a string")
		case utf8.RuneCountInString(k) > maxKeyLen:
			return nil, invalidParam("metadata", "a key is longer than 64 characters")
		case utf8.RuneCountInString(text) > maxValueLen:
			return nil, invalidParam("metadata", "a value is longer than 512 characters")
		}
		out[k] = text
	}
	return out, nil
}

// requestedJob is the job that a request names, brought up to date, if the
// project may see it. Its lock is held; the caller unlocks it. The time is read
// again under the lock, so that no request changes what a later one has seen.
func (s *Server) requestedJob(c *call) (*job, error) {
	s.mu.Lock()
	j, ok := s.jobs[c.PathValue("id")]
	s.mu.Unlock()
	if !ok || j.Project != c.project {
		return nil, notFound("batch")
	}
	j.mu.Lock()
	c.now = s.clock.now()
	if j.vanished(c.now) {
		j.mu.Unlock()
		return nil, notFound("batch")
	}
	if err := s.advance(j, c.now); err != nil {
		j.mu.Unlock()
		return nil, err
	}
	return j, nil
}

func (s *Server) getJob(c *call) (answer, error) {
	j, err := s.requestedJob(c)
	if err != nil {
		return answer{}, err
	}
	defer j.mu.Unlock()
	return answer{id: j.ID, body: j.body(c.now)}, nil
}

// cancelJob cancels a job that has not ended. For one that has been cancelled
// it answers as before; what the API says to one that ended otherwise is not
// known, and the sandbox says 409.
func (s *Server) cancelJob(c *call) (answer, error) {
	j, err := s.requestedJob(c)
	if err != nil {
		return answer{}, err
	}
	defer j.mu.Unlock()
	switch j.statusAt(c.now) {
	case statusCancelling, statusCancelled:
	case statusValidating, statusRunning, statusFinalizing:
		before := j.CancelAsked
		at := c.now
		j.CancelAsked = &at
		if err := s.saveJob(j); err != nil {
			j.CancelAsked = before
			return answer{}, err
		}
	default:
		return answer{id: j.ID}, &apiError{Status: http.StatusConflict, Type: "invalid_request_error", Message: "Cannot cancel a batch that has ended."}
	}
	return answer{id: j.ID, body: j.body(c.now)}, nil
}

func (s *Server) listJobs(c *call) (answer, error) {
	limit, err := limitOf(c.Request, 20, 100)
	if err != nil {
		return answer{}, err
	}
	var all []listed
	for _, j := range s.jobsOf(c.project) {
		if j.vanished(c.now) {
			continue
		}
		body, err := s.upToDate(j, c.now)
		if err != nil {
			return answer{}, err
		}
		all = append(all, listed{id: j.ID, created: j.Created, body: body})
	}
	return s.list(c, opListJobs, all, limit)
}

func (s *Server) upToDate(j *job, now time.Time) (jobBody, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := s.advance(j, now); err != nil {
		return jobBody{}, err
	}
	return j.body(now), nil
}

// jobsOf are the jobs of a project, or of all when it is "", newest first.
func (s *Server) jobsOf(project string) []*job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*job
	for _, j := range s.jobs {
		if project == "" || j.Project == project {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *job) int { return cmp.Compare(b.Seq, a.Seq) })
	return out
}
