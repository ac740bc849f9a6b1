package reconcile

import "testing"

// A body that was refused for what the configuration or this program did wrong
// makes no report a case for people (F28).
func TestFaultOutcome(t *testing.T) {
	for code, want := range map[string]ItemOutcome{
		"token_limit_exceeded": ItemNotRun, "input_file_not_found": ItemNotRun, "duplicate_custom_id": ItemNotRun, "Duplicate_Custom_ID": ItemNotRun,
		"model_mismatch": ItemDenied, "url_mismatch": ItemDenied, "URL_MISMATCH": ItemDenied, "model_not_found": ItemDenied,
		"missing_required_parameter": ItemRejected, "invalid_json_line": ItemRejected, "unprintable": ItemRejected, "": ItemRejected,
	} {
		if got := faultOutcome(code); got != want {
			t.Errorf("%q is %s, want %s", code, got, want)
		}
	}
}
