package infrai

import (
	"context"
	"io"
	"net/http"
	"slices"

	"rollcall/batch"
)

// Codes of this adapter, in the place of a provider's code.
const (
	// The gates. With one of them closed nothing that holds text is sent.
	codeGatePin     = "gate_pin_missing"
	codeGateItem    = "gate_item_not_pinned"
	codeGateStates  = "gate_states_not_pinned"
	codeGateResults = "gate_results_not_pinned"
	codeGateVendor  = "gate_item_vendor_not_pinned"
	codeGateVendors = "gate_vendors_empty"
	codeGateClass   = "gate_data_class_not_permitted"
	// codeGateDrift: the provider's documents are not those of the pin.
	codeGateDrift = "gate_documents_differ"
	// codeGateDedup: the provider has made two jobs under one key.
	codeGateDedup = "gate_second_job_for_key"

	codeInvalidID      = "invalid_id"
	codeInvalidKey     = "invalid_idempotency_key"
	codeModel          = "model_not_explicit"
	codeModelNotPinned = "model_not_pinned"
	codeInlineOnly     = "body_goes_with_create"
	codeNoDeletion     = "deletion_not_documented"
	codeBodySize       = "body_size_mismatch"
	codeBodyLines      = "body_is_not_lines"
	codeTooMany        = "too_many_items"
	codeTooLarge       = "body_too_large"
	codeWindow         = "key_window_is_over"
	codeNoRepeat       = "repeat_not_declared"
	codeOtherBody      = "repeat_has_other_body"
	codeOtherAPIKey    = "repeat_has_other_api_key"
	codeNotRetryable   = "not_retryable"
	codeTotal          = "total_count_mismatch"
	codeSecondJob      = "second_job_for_key"
	codeOKFalse        = "ok_is_false"
	codeOKTrue         = "ok_is_true"
	codeNoEnvelope     = "no_envelope"
	codeCacheHit       = "cache_hit"
	codeNoModel        = "model_not_named"
)

// Gate is the code of the gate that keeps texts from being sent, or "" when all
// of them are open. It makes no call.
func (c *Client) Gate() string {
	if c.cfg.Pin == nil {
		return codeGatePin
	}
	if code := c.contract.missing(); code != "" {
		return code
	}
	switch {
	case len(c.cfg.Vendors) == 0:
		return codeGateVendors
	case !slices.Contains(c.classes(), c.cfg.DataClass):
		return codeGateClass
	case c.drifted.Load():
		return codeGateDrift
	case c.doubled.Load():
		return codeGateDedup
	}
	return ""
}

// admit refuses what would send, or prepare, text through a closed gate.
func (c *Client) admit(op string) error {
	if code := c.Gate(); code != "" {
		return &batch.Error{Op: op, Kind: batch.Denied, Code: code}
	}
	return nil
}

// classes are the pin's, or made-up texts alone.
func (c *Client) classes() []batch.DataClass {
	if c.cfg.Pin == nil || len(c.cfg.Pin.Classes) == 0 {
		return []batch.DataClass{batch.DataSynthetic}
	}
	return slices.Compact(slices.Sorted(slices.Values(c.cfg.Pin.Classes)))
}

// Check compares the provider's discovery documents, as they are now, with those
// of the pin, without the API key. One that differs closes the gate until a
// Check finds all of them as they were; known jobs are looked up all the same.
// Its Code then ends in the id of the first document that differs. It may be
// called at any time; an answer that did not come, or was no document, changes
// nothing.
func (c *Client) Check(ctx context.Context) error {
	const op = "check"
	if c.cfg.Pin == nil {
		return &batch.Error{Op: op, Kind: batch.Denied, Code: codeGatePin}
	}
	for _, d := range c.cfg.Pin.Documents {
		sum, err := c.liveSum(ctx, op, d.ID)
		if err != nil {
			return err
		}
		if sum != d.SHA256 {
			c.drifted.Store(true)
			return &batch.Error{Op: op, Kind: batch.Denied, HTTPStatus: http.StatusOK, Code: batch.SafeCode("differs." + d.ID)}
		}
	}
	c.drifted.Store(false)
	return nil
}

// liveSum is the hash of a document as the provider gives it now. A document
// that is gone is one that differs.
func (c *Client) liveSum(ctx context.Context, op, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	req := c.request(ctx, http.MethodGet, "/v1/discovery/"+id, nil)
	req.Header.Del("Authorization") // discovery takes none
	resp, err := c.wire.Do(req, maxDocument)
	if err != nil {
		return "", &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	defer resp.Body.Close()
	a := c.meta(resp)
	switch resp.StatusCode {
	case http.StatusOK:
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", a.error(op, readFault(err), err)
		}
		return sumOf(raw), nil
	case http.StatusNotFound, http.StatusGone:
		return "", nil
	}
	return "", c.read(resp).fault(op, readKind)
}
