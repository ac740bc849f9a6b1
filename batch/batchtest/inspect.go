package batchtest

import (
	"bytes"
	"net/http"
	"reflect"

	"rollcall/batch"
)

const maxInspection = 1 << 20

// inspector is the provider's, or skips the check.
func (h *harness) inspector() batch.Inspector {
	h.Helper()
	i, ok := h.Provider.(batch.Inspector)
	if !ok {
		h.Skip("this provider inspects nothing")
	}
	return i
}

func inspect(h *harness) {
	job := h.created()
	want := h.status(job.ID)
	calls := h.Server.Calls(OpInspect)
	got, err := h.inspector().Inspect(h.Context(), job.ID)
	if err != nil || got.HTTPStatus != http.StatusOK || !bytes.Contains(got.Body, []byte(job.ID)) || len(got.Body) > maxInspection {
		h.Errorf("%+v, %v", got, err)
	}
	if n := h.Server.Calls(OpInspect) - calls; n != 1 {
		h.Errorf("%d calls, want 1", n)
	}
	if got, err := h.inspector().Inspect(h.Context(), "batch-nobody-knows"); err != nil || got.HTTPStatus != http.StatusNotFound {
		h.Errorf("%+v, %v", got, err)
	}
	if got := h.status(job.ID); !reflect.DeepEqual(got, want) {
		h.Errorf("job is %+v, was %+v", got, want)
	}
}

// inspectFaults: an answer of any status is shown, once and as it came.
func inspectFaults(h *harness) {
	h.inspector()
	for _, tc := range []struct {
		fault  Fault
		status int // the first of the hundred of a redirect
	}{
		{Fault{Kind: GatewayPage}, http.StatusBadGateway}, {Fault{Kind: Conflict}, http.StatusConflict},
		{Fault{Kind: Blank}, http.StatusOK}, {Fault{Kind: BadRequest}, http.StatusBadRequest},
		{Fault{Kind: Unauthorized}, http.StatusUnauthorized}, {Fault{Kind: Missing}, http.StatusNotFound},
		{Fault{Kind: TooMany, RetryAfter: wait}, http.StatusTooManyRequests}, {Fault{Kind: Redirect}, http.StatusMultipleChoices},
	} {
		h.each(string(tc.fault.Kind), func(h *harness) {
			job := h.created()
			calls := h.Server.Calls(OpInspect)
			h.arm(OpInspect, tc.fault)
			got, err := h.inspector().Inspect(h.Context(), job.ID)
			if tc.fault.Kind == Redirect {
				got.HTTPStatus -= got.HTTPStatus % 100
			}
			if err != nil || got.HTTPStatus != tc.status || got.RetryAfter != tc.fault.RetryAfter || got.RequestID != batch.SafeCode(got.RequestID) {
				h.Errorf("%+v, %v, want HTTP %d", got, err, tc.status)
			}
			if n := h.Server.Calls(OpInspect) - calls; n != 1 || h.Server.Strayed() != 0 {
				h.Errorf("%d calls, %d strayed", n, h.Server.Strayed())
			}
		})
	}
	for _, fault := range []FaultKind{LostRequest, LostAnswer, Torn} {
		h.each(string(fault), func(h *harness) {
			job := h.created()
			h.arm(OpInspect, Fault{Kind: fault})
			// A stack may try a read again on a connection that was dead.
			if _, err := h.inspector().Inspect(h.Context(), job.ID); err != nil || fault == Torn {
				h.fails(err, batch.Temporary)
			}
		})
	}
}
