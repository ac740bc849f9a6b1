package reconcile

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// handOver hands the request body over where it goes first, and notes it. No job
// exists after it, whatever happened, so any fault here is a proven refusal.
func (s *sending) handOver(ctx context.Context) error {
	body := s.r.Keys.NewMAC(keyring.Body)
	size, err := s.render(ctx, body, nil)
	if err != nil {
		return s.refuse(ctx, err)
	}
	can := s.account.Capabilities()
	if limit := can.Limits.Bytes; limit > 0 && size > limit {
		return s.refuse(ctx, unsent(fmt.Sprintf("the body of %d bytes is over the provider's limit of %d", size, limit)))
	}
	s.size, s.bodyMAC = size, hex.EncodeToString(body.Sum(nil))
	if can.Handover == batch.HandoverFile {
		if err := s.upload(ctx); err != nil {
			return err
		}
	}
	return s.noteUpload(ctx)
}

func (s *sending) upload(ctx context.Context) error {
	uploading, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	in, fault := s.input(uploading)
	in.Expiry = s.r.Settings.InputExpiry
	var err error
	s.fileID, err = s.account.Upload(uploading, in)
	if err := cmp.Or(fault(), err); err != nil {
		return s.refuse(ctx, err)
	}
	// The provider has the text and no job was asked for.
	s.r.step(crashpoint.SubmitUploaded)
	return nil
}

// input is the body as an adapter takes it, and a function that tells, once it
// is taken, what was wrong with it: a fault of ours explains the provider's
// error, and not the other way round.
func (s *sending) input(ctx context.Context) (in batch.Input, fault func() error) {
	var renderErr error
	body := s.r.Keys.NewMAC(keyring.Body)
	write := func(w io.Writer) error {
		_, renderErr = s.render(ctx, io.MultiWriter(leaving{w, &s.left}, body), func(lines int64) { s.r.progress(PassSubmit, lines, s.sub.Lines) })
		if renderErr == nil && hex.EncodeToString(body.Sum(nil)) != s.bodyMAC {
			renderErr = &renderFault{cause: errors.New("the body is not the one that was noted")}
		}
		return renderErr
	}
	return batch.Input{Name: s.ledger.fileName(s.job.ID, s.sub.ID), Size: s.size, Write: write}, func() error {
		if fault := (*renderFault)(nil); errors.As(renderErr, &fault) {
			return fault
		}
		return nil
	}
}

// leaving notes the first byte that an adapter takes. That Write is called says
// nothing yet: an adapter may call it before it has a connection.
type leaving struct {
	w    io.Writer
	left *atomic.Bool
}

func (l leaving) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if n > 0 {
		l.left.Store(true)
	}
	return n, err
}

func (s *sending) noteUpload(ctx context.Context) error {
	err := s.r.Store.RecordUpload(ctx, Upload{SubmissionID: s.sub.ID, FileID: s.fileID, Bytes: s.size, BodyMAC: s.bodyMAC})
	if err == nil {
		// A copy of the ledger from before this commit has the intent, and takes for
		// unsent what a job is about to be asked for: it must be known to be a copy.
		return s.witness(ctx)
	}
	// Without it in the ledger an interrupted create could not be found again, so
	// none is made.
	s.r.Log.Warn().Err(err).Str("job_id", s.job.ID).Msg("the body could not be noted")
	return s.refuse(ctx, unsent("the body could not be noted"))
}

// create asks for the job: once, before the send deadline, by the wall clock
// and by the monotonic one.
func (s *sending) create(ctx context.Context) error {
	if err := s.mayCreate(ctx); err != nil {
		return s.refuse(ctx, err)
	}
	// From here on a told end is ignored until the outcome is recorded: a cut
	// request would have to be looked for at the provider.
	ctx = context.WithoutCancel(ctx)
	creating, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	c, fault := s.creation(creating)
	answer, err := s.account.Create(creating, c)
	// The provider may have the job, and the ledger does not know its id.
	s.r.step(crashpoint.SubmitCreated)
	if err == nil && answer.ID == "" {
		err = &batch.Error{Op: "create", Kind: batch.UnknownOutcome}
	}
	if err != nil {
		// A body that was not written to its end made no job, if the adapter says so.
		if ours := fault(); ours != nil && batch.KindOf(err) != batch.UnknownOutcome {
			return s.refuse(ctx, ours)
		}
		return s.refuseOrLeave(ctx, err)
	}
	return s.accept(ctx, answer)
}

// creation asks for the job of this submission, in the same bytes each time.
func (s *sending) creation(ctx context.Context) (c batch.Creation, fault func() error) {
	c = batch.Creation{FileID: s.fileID, Key: s.sub.ID, Metadata: s.ledger.metadata(s.sub), OutputExpiry: s.r.Settings.OutputExpiry}
	if s.account.Capabilities().Handover == batch.HandoverFile {
		return c, func() error { return nil }
	}
	in, fault := s.input(ctx)
	c.Body = &in
	return c, fault
}

func (s *sending) mayCreate(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errToldToEnd
	}
	now, err := s.r.Now(ctx)
	if err != nil {
		return unsent("the clock could not be read")
	}
	// A create that is begun at the last moment would be cut off by the deadline,
	// with an outcome that nobody knows.
	if s.remaining() < s.r.Settings.SendWithin/10 || now.After(s.sub.SendBy) {
		return unsent("the send deadline has passed")
	}
	return nil
}

// remaining is how long this submission may still be sent.
func (s *sending) remaining() time.Duration {
	return s.r.Settings.SendWithin - (s.r.Uptime() - s.began)
}

// acceptCalls takes over a job whose texts are called one by one: nothing is
// rendered, and its id is one of ours. The calls are made by the pass call.
func (s *sending) acceptCalls(ctx context.Context) error {
	if ctx.Err() != nil {
		return s.refuse(ctx, errToldToEnd)
	}
	now, err := s.r.Now(ctx)
	if err != nil {
		return err
	}
	err = s.r.Store.RecordAccepted(ctx, now, Acceptance{SubmissionID: s.sub.ID, ProviderJobID: callsPrefix + s.job.ID, Status: "calling", NextPoll: now,
		Evidence: "its texts are called one by one", Calls: true})
	if err != nil {
		return fmt.Errorf("submission %s: %w", s.sub.ID, err)
	}
	// Its calls are committed as due. If the process dies here, call makes them.
	s.r.step(crashpoint.SubmitAccepted)
	return nil
}

// callsPrefix begins the id of a job that exists in the ledger only.
const callsPrefix = "calls-"
