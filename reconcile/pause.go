package reconcile

import "time"

// Paused is a pause that stands, and what left before it did. Its fields are
// what `--json` prints.
type Paused struct {
	Pause
	// Already: it stood before, since SetAt and by Actor, and nothing was written.
	Already bool `json:"already"`
	// Out are submissions in its scope without an outcome, oldest first, some of
	// OutTotal. Before its SendBy one may still make a job; behind it nobody knows
	// whether it did, if it has an input file. For a pause of dispatch only.
	Out      []UncertainView `json:"open_submissions"`
	OutTotal int64           `json:"open_submissions_total"`
	// AtProvider are jobs in its scope that the provider has, oldest first, some
	// of AtProviderTotal. For a pause of dispatch only.
	AtProvider      []SentJob `json:"jobs_at_provider"`
	AtProviderTotal int64     `json:"jobs_at_provider_total"`
}

// SentJob is a job that the provider has and that has not ended.
type SentJob struct {
	JobID         string    `json:"job_id"`
	ProviderJobID string    `json:"provider_job_id"`
	Items         int64     `json:"items"`
	SubmittedAt   time.Time `json:"submitted_at"`
}
