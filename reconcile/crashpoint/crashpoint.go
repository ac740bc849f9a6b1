// Package crashpoint names the instants between durable steps, so that a test
// can end the process exactly there. In an ordinary build Hit does nothing and
// is inlined away; with the build tag crashpoint it ends the process when the
// environment asks for it.
package crashpoint

import "slices"

// The points, in the order in which a report passes them. Each stands between
// two effects of which a crash leaves the first without the second.
const (
	IntakeAccepted    = "intake.accepted"     // a chunk is committed, the source is not told
	CollectPlanned    = "collect.planned"     // members are committed, the job is not ready
	CollectReady      = "collect.ready"       // the job is ready
	SubmitIntent      = "submit.intent"       // the intent is committed, nothing is sent
	SubmitUploaded    = "submit.uploaded"     // the provider has the file, we have not noted its id
	SubmitFileNoted   = "submit.file_noted"   // the file's id is committed, no job is asked for
	SubmitCreated     = "submit.created"      // the provider has the job, we have not noted its id
	SubmitAccepted    = "submit.accepted"     // the job's id is committed
	ResolveFound      = "resolve.found"       // the provider's list shows the job, we have not noted its id
	ResolveAccepted   = "resolve.accepted"    // the job's id is committed
	ResolveFenced     = "resolve.fenced"      // the input file is deleted, we have not noted it
	ResolveAbsent     = "resolve.absent"      // the submission is closed, the job may be sent again
	CallClaimed       = "call.claimed"        // calls are claimed, nothing is sent
	CallAnswered      = "call.answered"       // the processor has answered, nothing is noted
	CallNoted         = "call.noted"          // answers are committed
	CallStaged        = "call.staged"         // some lines of the answers are staged, the job has not ended
	CallEnded         = "call.ended"          // the job is committed as ended
	PollClaimed       = "poll.claimed"        // the next poll is committed, nothing is asked
	PollAnswered      = "poll.answered"       // the provider answered, nothing is noted
	PollEnded         = "poll.ended"          // the job is committed as ended
	ConsumeStaged     = "consume.staged"      // some lines are staged, the set is not whole
	ConsumeWhole      = "consume.whole"       // a set is whole, nothing is judged
	ConsumeJudged     = "consume.judged"      // some items are judged
	ConsumeFinished   = "consume.finished"    // the job is committed as consumed
	ApplyRecorded     = "apply.recorded"      // some records and markers are committed
	SweepNoted        = "sweep.noted"         // a surplus object is on record, nothing is done about it
	SweepDeleted      = "sweep.deleted"       // it is gone, we have not noted it
	CheckFindingsOpen = "check.findings_open" // findings of one invariant are committed
)

// Points lists every point.
func Points() []string {
	return []string{
		IntakeAccepted, CollectPlanned, CollectReady, SubmitIntent, SubmitUploaded, SubmitFileNoted, SubmitCreated, SubmitAccepted,
		ResolveFound, ResolveAccepted, ResolveFenced, ResolveAbsent,
		CallClaimed, CallAnswered, CallNoted, CallStaged, CallEnded,
		PollClaimed, PollAnswered, PollEnded, ConsumeStaged, ConsumeWhole, ConsumeJudged, ConsumeFinished, ApplyRecorded, SweepNoted, SweepDeleted, CheckFindingsOpen,
	}
}

// CallPoints are the points of the pass call. A report at a processor with jobs
// passes all others.
func CallPoints() []string {
	return []string{CallClaimed, CallAnswered, CallNoted, CallStaged, CallEnded}
}

// JobPoints are the points that a report at a processor with jobs passes.
func JobPoints() []string {
	return slices.DeleteFunc(Points(), func(p string) bool { return slices.Contains(CallPoints(), p) })
}
