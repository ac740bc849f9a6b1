package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"rollcall/batch"
	"rollcall/reconcile/keyring"
)

// Codes of lines, in the place of a provider's code.
const (
	codeLineTooLong = "line_too_long"
	codeUnreadable  = "unreadable"
	codeBadShape    = "bad_shape"
	codeUnknownID   = "unknown_id"
	codeVendor      = "unapproved_vendor"
	codeModel       = "another_model"
)

// workOf is the work that a custom id names, if it has the form of those that
// were sent with the submission; "" if it has not.
func workOf(customID, submissionID string) (workID string, ok bool) {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	workID, ok = strings.CutSuffix(customID, "-"+submissionID)
	if !ok || workID == "" || len(customID) > 64 || strings.ContainsFunc(workID, odd) {
		return "", false
	}
	return workID, true
}

// newLine is what is stored of every line, whatever it says.
func (f *fileReading) newLine(raw rawLine, res batch.Result) ResultLine {
	if raw.mac == "" {
		digest := f.newLineMAC()
		digest.Write(raw.body)
		raw.mac = hex.EncodeToString(digest.Sum(nil))
	}
	return ResultLine{Line: raw.number, LineMAC: raw.mac, Bytes: raw.bytes, Code: batch.SafeCode(res.Code), Model: batch.SafeName(res.Model), Vendor: batch.SafeName(res.Vendor),
		InputTokens: boundedTokens(res.InputTokens), OutputTokens: boundedTokens(res.OutputTokens), Disposition: LineStaged}
}

// strayLine is a line that belongs to no member: one that cannot be read is
// kept, encrypted, for a person; of another's result there is only the digest.
func (f *fileReading) strayLine(raw rawLine, res batch.Result) (line ResultLine, err error) {
	line = f.newLine(raw, res)
	line.Outcome = lineUnreadable
	if res.CustomID != "" {
		line.Disposition, line.Code = LineUnknownID, codeUnknownID
		return line, nil
	}
	line.Disposition = LineMalformed
	if line.Code == "" {
		line.Code = codeUnreadable
	}
	line.Content, err = f.keep(raw)
	return line, err
}

// keep encrypts the beginning of a line that cannot be used.
func (f *fileReading) keep(raw rawLine) (keyring.Encrypted, error) {
	return f.Keys.Encrypt(raw.body[:min(len(raw.body), keptOfMalformed)], f.linePlace(raw.number)...)
}

// memberLine is the line of a member of the job.
func (f *fileReading) memberLine(ctx context.Context, raw rawLine, res batch.Result, item RequestItem) (ResultLine, error) {
	line := f.newLine(raw, res)
	line.WorkID = item.WorkID
	outcome, code := itemOutcome(res.Outcome)
	if line.Outcome = outcome; code != "" && !(code == codeBadShape && spoiltCode(line.Code)) {
		line.Code = code
	}
	var err error
	switch {
	case res.Outcome == batch.Unapproved && line.Code == "":
		line.Code = codeVendor
	case res.Outcome == batch.Answered && !f.question.Approves(line.Model):
		line.Outcome, line.Code = ItemUnapproved, codeModel
	case res.Outcome == batch.Answered:
		err = f.answerLine(ctx, &line, res.Content, item)
	case line.Code == codeUnreadable:
		line.Content, err = f.keep(raw)
	}
	return line, err
}

// answerLine validates an answer. An error means that nobody can tell whether
// the answer is good, as when a key is missing; that is not the answer's fault.
func (f *fileReading) answerLine(ctx context.Context, line *ResultLine, content []byte, item RequestItem) error {
	a, err := f.check.read(content, func() (batch.Text, error) { return openText(f.Keys, item) })
	err = f.faultOfText(ctx, item, err)
	var fault answerFault
	switch {
	case errors.As(err, &fault):
		line.Outcome, line.Code = ItemInvalid, string(fault)
		line.Content, err = f.Keys.Encrypt(content[:min(len(content), keptOfMalformed)], f.linePlace(line.Line)...)
		return err
	case err != nil:
		return err
	}
	line.Outcome, line.Code, line.Label, line.Evidence = ItemSucceeded, "", a.label, a.evidence
	line.PayloadMAC = f.Keys.MAC(keyring.Payload, a.content)
	line.Content, err = f.Keys.Encrypt(a.content, AnswerPlace(item.WorkID)...)
	return err
}

// itemOutcome is what a line's outcome means for its item, with a code where
// the provider's own would mislead. Answered is judged by the answer.
func itemOutcome(o batch.Outcome) (outcome ItemOutcome, code string) {
	switch o {
	case batch.Answered:
		return ItemInvalid, ""
	case batch.Refused:
		return ItemRefused, ""
	case batch.Blocked:
		return ItemBlocked, ""
	case batch.Truncated:
		return ItemTruncated, ""
	case batch.ItemRejected:
		return ItemRejected, ""
	case batch.ItemFailed:
		return ItemFailed, ""
	case batch.ItemDenied:
		return ItemDenied, ""
	case batch.ItemOutOfCredit:
		return ItemOutOfCredit, ""
	case batch.Expired:
		return ItemExpired, ""
	case batch.Cancelled:
		return ItemCancelled, ""
	case batch.NotRun:
		return ItemNotRun, ""
	case batch.Unapproved:
		return ItemUnapproved, ""
	case batch.Unreadable:
		return ItemInvalid, codeUnreadable
	}
	return ItemInvalid, codeBadShape
}

// spoiltCode says whether a code is one of those for which Judge does not accept
// an answer: it says more than that the shape is bad.
func spoiltCode(code string) bool {
	switch code {
	case batch.CodeCrossed, batch.CodeNoJSON, batch.CodeCategoryMissing, batch.CodeScores, batch.CodeThresholds:
		return true
	}
	return false
}

// AnswerPlace is the place that an artifact's answer is encrypted for.
func AnswerPlace(workID string) []string { return []string{"answer", workID} }

// linePlace is the place that what is kept of an unusable line is encrypted for.
func (f *fileReading) linePlace(number int64) []string {
	return []string{"line", f.job.ID, string(f.channel), strconv.FormatInt(number, 10)}
}

// openText decrypts a member's input. A text that was purged is empty.
func openText(keys *keyring.Ring, item RequestItem) (batch.Text, error) {
	if item.Text.KeyID == "" {
		return batch.Text{}, nil
	}
	plain, err := keys.Decrypt(item.Text, "text", item.ReportID, item.ContentMAC)
	if err != nil {
		return batch.Text{}, fmt.Errorf("text of work %s: %w", item.WorkID, err)
	}
	return batch.NewText(string(plain)), nil
}
