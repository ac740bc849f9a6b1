package reconcile

import (
	"context"
	"io"
	"time"

	"rollcall/batch"
)

// probe makes a job over a file without any request, which fails at once and
// holds no text: a landmark. Without one nothing is concluded.
func (v *resolution) probe(ctx context.Context, account string) {
	made, job, err := v.makeProbe(ctx)
	if err == nil {
		err = v.r.Store.RecordProbe(ctx, account, job.ID, made)
	}
	if err != nil {
		v.r.Log.Warn().Str("pass", string(PassResolve)).Str("evidence", evidenceOf(err)).Msg("no landmark could be made in the account's list of jobs")
		return
	}
	v.known = append(v.known, Landmark{ProviderJobID: job.ID, MadeAt: made, Probe: true})
}

// probeJob stands in the name of a probe's file in place of a job's id.
const probeJob = "probe"

func (v *resolution) makeProbe(ctx context.Context) (made time.Time, job batch.Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, v.r.Settings.SendWithin)
	defer cancel()
	id, err := v.r.Store.LedgerIdentity(ctx)
	if err != nil {
		return made, job, err
	}
	name, err := newSubmissionID(v.r.Rand)
	if err != nil {
		return made, job, err
	}
	const body = "{}\n"
	file, err := v.account.Upload(ctx, batch.Input{
		Name: id.fileName(probeJob, name), Size: int64(len(body)), Expiry: v.r.Settings.InputExpiry,
		Write: func(w io.Writer) error { _, err := io.WriteString(w, body); return err },
	})
	if err != nil {
		return made, job, err
	}
	// Gone again in any case; sweep deletes what a crash leaves.
	defer func() { _ = v.account.DeleteFile(context.WithoutCancel(ctx), file) }()
	if made, err = v.r.Now(ctx); err != nil {
		return made, job, err
	}
	job, err = v.account.Create(ctx, batch.Creation{
		FileID: file, Metadata: map[string]string{metaLedger: id.LedgerID, metaProbe: name}, OutputExpiry: v.r.Settings.OutputExpiry,
	})
	return made, job, err
}
