package fake_test

import (
	"errors"
	"testing"

	"rollcall/batch"
	"rollcall/batch/fake"
)

func TestDeleteJob(t *testing.T) {
	p := fake.New(fake.Options{DeletesJobs: true})
	job, other := newJob(t, p, "a"), newJob(t, p, "b")
	p.EndAll()
	p.Hooks.DeleteJob = func(string) (bool, error) { return false, nil }
	if err := p.DeleteJob(t.Context(), job.ID); err != nil {
		t.Error(err)
	}
	if _, err := p.Status(t.Context(), job.ID); err != nil {
		t.Errorf("a lie deleted the job: %v", err)
	}
	p.Hooks.DeleteJob = func(string) (bool, error) { return true, errors.New("plain") }
	if err := p.DeleteJob(t.Context(), job.ID); batch.KindOf(err) != batch.Temporary {
		t.Error(err)
	}
	if _, err := p.Status(t.Context(), job.ID); batch.KindOf(err) != batch.NotFound {
		t.Error(err)
	}
	p.Hooks.DeleteJob = nil
	if err := p.DeleteJob(t.Context(), job.ID); batch.KindOf(err) != batch.NotFound {
		t.Error(err)
	}
	var present []string
	for _, f := range p.Files() {
		if f.Present {
			present = append(present, f.ID)
		}
	}
	// Both inputs, which were uploaded on their own, and the results of the other.
	if len(present) != 3 || len(p.Jobs()) != 2 || p.Calls(fake.OpDeleteJob) != 3 {
		t.Errorf("files %v, %d jobs, %d calls", present, len(p.Jobs()), p.Calls(fake.OpDeleteJob))
	}
	if _, err := p.Status(t.Context(), other.ID); err != nil {
		t.Error(err)
	}
	without := fake.New(fake.Options{})
	if err := without.DeleteJob(t.Context(), "job-000001"); batch.KindOf(err) != batch.Rejected || without.Capabilities().Deletion.Job {
		t.Errorf("%v, %+v", err, without.Capabilities())
	}
}
