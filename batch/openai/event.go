package openai

import (
	"github.com/go-json-experiment/json"

	"rollcall/batch/transport"
)

// wireEvent is what a webhook holds. There are no counts and no status in it.
type wireEvent struct {
	Type str `json:"type"`
	Data obj[struct {
		ID str `json:"id"`
	}] `json:"data"`
}

// JobEvent reads the body of a webhook and gives the id of the batch job that it
// says has ended, "" for an event about something else, whose type may be one that
// is not known yet. It is an error if the body is no event, or one about a job that
// it does not name. The signature must have been verified before.
func JobEvent(body []byte) (jobID string, err error) {
	var e wireEvent
	if json.Unmarshal(body, &e) != nil || e.Type.v == "" {
		return "", errShape
	}
	switch e.Type.v {
	case "batch.completed", "batch.failed", "batch.expired", "batch.cancelled":
	default:
		return "", nil
	}
	if id := e.Data.v.ID.v; transport.PathSafe(id) {
		return id, nil
	}
	return "", errShape
}
