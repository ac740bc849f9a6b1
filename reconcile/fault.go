package reconcile

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// faultOutcome is what a fault of a refused body means for the member that it
// names. A fault of the account or of the moment is none of the text, and neither
// is one of what was made of it here or in the configuration: a person who reads
// the report can do nothing about it. A custom id that is there twice is another
// one in the next job.
func faultOutcome(code string) ItemOutcome {
	switch strings.ToLower(code) {
	case "token_limit_exceeded", "input_file_not_found", "empty_file", "input_modified", "duplicate_custom_id":
		return ItemNotRun
	case "model_not_found", "model_mismatch", "url_mismatch", "input_no_permissions":
		return ItemDenied
	}
	return ItemRejected
}

// readFaults stages the provider's reasons for refusing a job's body, as lines:
// a reason that names a member is that member's line. Members without one were
// not run, since nothing of such a job was.
func (j *jobReading) readFaults(ctx context.Context) error {
	told, err := j.provider.Status(ctx, j.job.ProviderJobID)
	if err != nil {
		return err
	}
	if told.Phase != batch.PhaseInvalid {
		return fmt.Errorf("the provider says now that the job is %s: %w", told.Status, errPutOff)
	}
	byLine, all := map[int64]string{}, j.Keys.NewMAC(keyring.Body)
	codes := map[string]int64{}
	for _, f := range told.Faults {
		code := batch.SafeCode(f.Code)
		codes[code]++
		fmt.Fprintf(all, "%d %s\n", f.Line, code)
		if f.Line > 0 {
			if _, known := byLine[int64(f.Line)]; !known { // the first of several is enough
				byLine[int64(f.Line)] = code
			}
		}
	}
	lines, err := j.faultLines(ctx, byLine)
	if err != nil {
		return err
	}
	if err := j.raise(ctx, j.now, EventJobRefused, "job:"+j.job.ID, faultDetail(codes)); err != nil {
		return err
	}
	for chunk := range slices.Chunk(lines, j.Settings.Chunk) {
		if err := j.Store.StageLines(ctx, j.job.ID, batch.ChannelFaults, chunk); err != nil {
			return err
		}
		// As for a file: if the process dies here, the reasons are asked for again.
		j.step(crashpoint.ConsumeStaged)
	}
	return j.Store.FinishResultSet(ctx, j.now, WholeSet{
		JobID: j.job.ID, Channel: batch.ChannelFaults, Lines: int64(len(lines)), MAC: hex.EncodeToString(all.Sum(nil)),
	})
}

// faultLines are the staged lines of faults by line of the request file.
func (j *jobReading) faultLines(ctx context.Context, byLine map[int64]string) ([]ResultLine, error) {
	numbers := slices.Sorted(maps.Keys(byLine))
	var lines []ResultLine
	for chunk := range slices.Chunk(numbers, j.Settings.Chunk) {
		members, err := j.Store.MemberLines(ctx, j.job.ID, chunk)
		if err != nil {
			return nil, err
		}
		for _, n := range chunk {
			code := byLine[n]
			line := ResultLine{Line: n, WorkID: members[n], Outcome: faultOutcome(code), Code: code, Disposition: LineStaged,
				LineMAC: j.Keys.MAC(keyring.Line, []byte("fault"), []byte(strconv.FormatInt(n, 10)), []byte(code))}
			if line.WorkID == "" { // not a line that we sent
				line.Outcome, line.Disposition = lineUnreadable, LineUnknownID
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// faultDetail is "invalid_json_line 1, model_mismatch 3".
func faultDetail(codes map[string]int64) string {
	if len(codes) == 0 {
		return "no reason given"
	}
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		parts = append(parts, strings.TrimSpace(code+" "+strconv.FormatInt(codes[code], 10)))
	}
	const most = 10 // codes are a provider's words
	if len(parts) > most {
		parts = append(parts[:most], "and more")
	}
	return strings.Join(parts, ", ")
}
