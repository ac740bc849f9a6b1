package sandbox

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// apiError is an error in the documented envelope.
type apiError struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"` // string or nil
	Code    any    `json:"code"`  // string or nil
}

func (e *apiError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message) }

type errorBody struct {
	Error *apiError `json:"error"`
}

func badRequest(code, param, message string) *apiError {
	e := &apiError{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: message}
	if code != "" {
		e.Code = code
	}
	if param != "" {
		e.Param = param
	}
	return e
}

func missingParam(param string) *apiError {
	return badRequest("missing_required_parameter", param, "Missing required parameter: '"+param+"'.")
}

func invalidParam(param, why string) *apiError {
	return badRequest("invalid_value", param, "Invalid value for '"+param+"': "+why+".")
}

func notFound(what string) *apiError {
	return &apiError{Status: http.StatusNotFound, Type: "invalid_request_error", Message: "No such " + what + "."}
}

type fileBody struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
	// Details is deprecated, and sent.
	Details any `json:"status_details"`
}

type deletedBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

type listBody struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	FirstID any    `json:"first_id"`
	LastID  any    `json:"last_id"`
	HasMore bool   `json:"has_more"`
}

// listed is an entry of a list.
type listed struct {
	id      string
	created time.Time
	body    any
	hidden  bool // by a fault; it is still good for a cursor
}

// page cuts one page out of all, which is in the order of the list.
func page(all []listed, after string, limit int) (listBody, error) {
	if after != "" {
		i := 0
		for i < len(all) && all[i].id != after {
			i++
		}
		if i == len(all) {
			return listBody{}, invalidParam("after", "no such object")
		}
		all = all[i+1:]
	}
	all = slices.DeleteFunc(all, func(l listed) bool { return l.hidden })
	out := listBody{Object: "list", HasMore: len(all) > limit}
	all = all[:min(limit, len(all))]
	for _, l := range all {
		out.Data = append(out.Data, l.body)
	}
	if n := len(all); n > 0 {
		out.FirstID, out.LastID = all[0].id, all[n-1].id
	}
	return out, nil
}

type countsBody struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type usageBody struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

type problemList struct {
	Object string    `json:"object"`
	Data   []problem `json:"data"`
}

// jobBody is a Batch. A time or id that does not apply is null.
type jobBody struct {
	ID           string      `json:"id"`
	Object       string      `json:"object"`
	Endpoint     string      `json:"endpoint"`
	Model        any         `json:"model"`
	Errors       any         `json:"errors"`
	InputFile    string      `json:"input_file_id"`
	Window       string      `json:"completion_window"`
	Status       string      `json:"status"`
	OutputFile   any         `json:"output_file_id"`
	ErrorFile    any         `json:"error_file_id"`
	CreatedAt    any         `json:"created_at"`
	InProgressAt any         `json:"in_progress_at"`
	ExpiresAt    any         `json:"expires_at"`
	FinalizingAt any         `json:"finalizing_at"`
	CompletedAt  any         `json:"completed_at"`
	FailedAt     any         `json:"failed_at"`
	ExpiredAt    any         `json:"expired_at"`
	CancellingAt any         `json:"cancelling_at"`
	CancelledAt  any         `json:"cancelled_at"`
	Counts       *countsBody `json:"request_counts"`
	Usage        any         `json:"usage"`
	Metadata     any         `json:"metadata"`
}

// stamp writes a time as the API does, or as the other spelling has it.
func stamp(t time.Time, rfc3339 bool) any {
	switch {
	case t.IsZero():
		return nil
	case rfc3339:
		return t.UTC().Format(time.RFC3339)
	default:
		return t.Unix()
	}
}
