package batchtest

import (
	"reflect"
	"slices"

	"rollcall/batch"
)

// deletesFiles is false for a provider whose DeleteFile has nothing to delete.
func (h *harness) deletesFiles() bool {
	d := h.Provider.Capabilities().Deletion
	return d.Input || d.Results
}

func deleteFile(h *harness) {
	if !h.deletesFiles() {
		keepsFiles(h)
		return
	}
	file := h.finished()
	before := h.Server.Files()
	// A file that is gone after a lost answer is success the next time.
	for _, tc := range []readFault{
		{Fault{Kind: LostRequest}, batch.Temporary, false}, {Fault{Kind: ServerError}, batch.Temporary, false}, {Fault{Kind: Busy}, batch.Temporary, false},
		{Fault{Kind: BadRequest}, batch.Rejected, false}, {Fault{Kind: Unauthorized}, batch.Denied, false}, {Fault{Kind: Forbidden}, batch.Denied, false},
		{Fault{Kind: Payment}, batch.OutOfCredit, false}, {Fault{Kind: TooMany}, batch.RateLimited, false},
		{Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited, false}, {Fault{Kind: TooManyDate, RetryAfter: wait}, batch.RateLimited, false},
		{Fault{Kind: Redirect}, batch.BadAnswer, false}, {Fault{Kind: GatewayPage}, batch.Temporary, false},
	} {
		if h.Server.Arm(OpDelete, tc.fault) {
			tc.meets(h, h.Provider.DeleteFile(h.Context(), file))
		}
	}
	for range 2 {
		if err := h.Provider.DeleteFile(h.Context(), file); err != nil {
			h.Error(err)
		}
	}
	if err := h.Provider.DeleteFile(h.Context(), "file-nobody-knows"); err != nil {
		h.Error(err)
	}
	if n := h.Server.Files(); !h.isInline() && n != before-1 {
		h.Errorf("%d files, want %d", n, before-1)
	}
	_, err := h.download(file)
	h.fails(err, batch.NotFound)
	if h.Server.Strayed() != 0 {
		h.Error("a call went elsewhere")
	}
}

// keepsFiles: where nothing can be deleted, nothing is said to have been.
func keepsFiles(h *harness) {
	file := h.finished()
	want, _ := h.lines(file)
	h.fails(h.Provider.DeleteFile(h.Context(), file), batch.Rejected)
	if got, _ := h.lines(file); !slices.Equal(got, want) || h.Server.Calls(OpDelete) != 0 {
		h.Errorf("%d bytes, were %d, after %d deletes", len(got), len(want), h.Server.Calls(OpDelete))
	}
}

// deleter is the provider's, or skips the check.
func (h *harness) deleter() batch.JobDeleter {
	h.Helper()
	d, ok := h.Provider.(batch.JobDeleter)
	if !ok || !h.Provider.Capabilities().Deletion.Job {
		h.Skip("this provider deletes no jobs")
	}
	return d
}

// deleteJob: an ended job goes with its results, and no other does.
func deleteJob(h *harness) {
	d := h.deleter()
	other := h.ended(AllAnswered)
	file := h.channel(other, batch.ChannelOutput)
	want, _ := h.lines(file)
	if running := h.created(); running.Phase == batch.PhaseRunning {
		before := h.status(running.ID)
		h.fails(d.DeleteJob(h.Context(), running.ID), batch.Rejected)
		if got := h.status(running.ID); !reflect.DeepEqual(got, before) {
			h.Errorf("a running job is %+v, was %+v", got, before)
		}
	}
	gone := h.ended(AllAnswered)
	if err := d.DeleteJob(h.Context(), gone.ID); err != nil {
		h.Error(err)
	}
	// One that is not found may be gone, or there: who asked must decide (F24).
	for _, id := range []string{gone.ID, "batch-nobody-knows"} {
		h.fails(d.DeleteJob(h.Context(), id), batch.NotFound)
	}
	_, err := h.Provider.Status(h.Context(), gone.ID)
	h.fails(err, batch.NotFound)
	_, err = h.download(h.channel(gone, batch.ChannelOutput))
	h.fails(err, batch.NotFound)
	if inv, ok := h.Provider.(batch.Inventory); ok {
		page, err := inv.ListJobs(h.Context(), "")
		if err != nil || slices.Contains(jobIDs(page.Jobs), gone.ID) {
			h.Errorf("%+v, %v, and %s was deleted", page, err, gone.ID)
		}
	}
	if got, _ := h.lines(file); !slices.Equal(got, want) || !reflect.DeepEqual(h.status(other.ID), other) {
		h.Error("another job was touched")
	}
	if h.Server.Calls(OpCreate) > 3 {
		h.Error("a delete created something")
	}
}

// deleteJobFaults: a delete whose outcome is unknown may be repeated.
func deleteJobFaults(h *harness) {
	h.deleter()
	for _, tc := range onceMore {
		h.each(tc.fault.String(), func(h *harness) {
			job := h.ended(AllAnswered)
			h.arm(OpDeleteJob, tc.fault)
			tc.meets(h, h.deleter().DeleteJob(h.Context(), job.ID))
			if err := h.deleter().DeleteJob(h.Context(), job.ID); err != nil {
				h.fails(err, batch.NotFound) // it was deleted the first time
			}
			_, err := h.Provider.Status(h.Context(), job.ID)
			h.fails(err, batch.NotFound)
			if h.Server.Strayed() != 0 || h.Server.Calls(OpCreate) != 1 {
				h.Error("the call went elsewhere, or created something")
			}
		})
	}
	h.each(string(Missing), func(h *harness) { // a lie about a job that is there (F24)
		job := h.ended(AllAnswered)
		h.arm(OpDeleteJob, Fault{Kind: Missing})
		h.fails(h.deleter().DeleteJob(h.Context(), job.ID), batch.NotFound)
		if got := h.status(job.ID); !reflect.DeepEqual(got, job) {
			h.Errorf("job is %+v, was %+v", got, job)
		}
	})
}
