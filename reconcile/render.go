package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"

	"rollcall/batch"
)

// renderFault means that the request body could not be made from the ledger. It
// names the work and never holds text.
type renderFault struct {
	workID     string // "" when it is not about one
	unreadable bool   // the stored text cannot be decrypted
	cause      error
}

func (f *renderFault) Error() string {
	switch {
	case f.unreadable:
		return fmt.Sprintf("the text of work %s cannot be decrypted: %v", f.workID, f.cause)
	case f.workID != "":
		return fmt.Sprintf("the request of work %s cannot be made: %v", f.workID, f.cause)
	default:
		return fmt.Sprintf("the request lines cannot be read: %v", f.cause)
	}
}

func (f *renderFault) Unwrap() error { return f.cause }

// render writes the request body of a submission, line by line, and returns its
// length. The same submission always gives the same bytes: its lines do not
// change while it is open. One page of encrypted texts and one line in clear
// are in memory at a time.
//
// An error of the ledger or of the adapter is a *renderFault; one of w is
// returned as it is.
func (s *sending) render(ctx context.Context, w io.Writer, progress func(lines int64)) (size int64, err error) {
	question := s.policy.Question()
	var done int64
	var line []byte
	for {
		page, err := s.r.Store.RequestItems(ctx, s.job.ID, done, s.r.Settings.Chunk)
		if err != nil {
			return size, &renderFault{cause: err}
		}
		if len(page) == 0 {
			break
		}
		for _, item := range page {
			if item.Line != done+1 {
				return size, &renderFault{workID: item.WorkID, cause: fmt.Errorf("line %d follows line %d", item.Line, done)}
			}
			if line, err = s.renderLine(line[:0], question, item); err != nil {
				return size, err
			}
			n, err := w.Write(line)
			size += int64(n)
			if err != nil {
				return size, err
			}
			done++
		}
		if progress != nil {
			progress(done)
		}
	}
	if done != s.sub.Lines {
		return size, &renderFault{cause: fmt.Errorf("%d of %d lines are there", done, s.sub.Lines)}
	}
	return size, nil
}

func (s *sending) renderLine(dst []byte, question *batch.Classifier, item RequestItem) ([]byte, error) {
	plain, err := s.r.Keys.Decrypt(item.Text, "text", item.ReportID, item.ContentMAC)
	if err != nil {
		return dst, &renderFault{workID: item.WorkID, unreadable: true, cause: err}
	}
	dst, err = s.account.AppendRequest(dst, question, CustomID(item.WorkID, s.sub.ID), batch.NewText(string(plain)))
	if err != nil {
		return dst, &renderFault{workID: item.WorkID, cause: errors.New(evidenceOf(err))}
	}
	return dst, nil
}
