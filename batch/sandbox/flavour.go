package sandbox

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Flavour is whose service the sandbox is like, where copies of the API differ.
type Flavour string

const (
	// FlavourOpenAI is the API itself, under /v1.
	FlavourOpenAI Flavour = ""
	// FlavourAzure is Azure OpenAI: under /openai/v1, or under /openai with the
	// parameter api-version; the key in the header api-key or as a bearer token;
	// endpoints spelled with and without /v1; 201 for an upload; files that live
	// for 14 days at least; capitalised statuses and RFC 3339 times; an error file
	// of zero bytes where nothing failed, and the ids of both files where all did.
	FlavourAzure Flavour = "azure"
)

func (f Flavour) prefixes() []string {
	if f == FlavourAzure {
		return []string{"/openai/v1", "/openai"}
	}
	return []string{"/v1"}
}

// checkVersion is nil unless a request needs a version and has none.
func (f Flavour) checkVersion(r *http.Request) error {
	if f == FlavourAzure && !strings.HasPrefix(r.URL.Path, "/openai/v1/") && r.URL.Query().Get("api-version") == "" {
		return &apiError{Status: http.StatusNotFound, Code: "404", Message: "Resource not found"}
	}
	return nil
}

// key is the key that a request carries.
func (f Flavour) key(r *http.Request) (string, bool) {
	if key := r.Header.Get("api-key"); f == FlavourAzure && key != "" {
		return key, true
	}
	return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// status is that of an answer that is no error.
func (f Flavour) status(op string) int {
	if f == FlavourAzure && op == opUpload {
		return http.StatusCreated
	}
	return http.StatusOK
}

// jobFaults are what is usual here and odd elsewhere.
func (f Flavour) jobFaults() []Fault {
	if f == FlavourAzure {
		return []Fault{{Name: "other_spelling"}, {Name: "zero_byte_error_file"}, {Name: "failed_file_ids"}}
	}
	return nil
}

// endpoints are the documented ones. The sandbox answers some; lines for another
// fail validation.
var endpoints = []string{
	"/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions", "/v1/moderations",
	"/v1/images/generations", "/v1/images/edits", "/v1/videos",
}

func (f Flavour) hasEndpoint(path string) bool {
	return slices.Contains(endpoints, path) || f == FlavourAzure && slices.Contains(endpoints, "/v1"+path)
}

func (f Flavour) checkExpiry(param, anchor string, seconds int64) (time.Duration, error) {
	least, why := minExpiry, "must be from 3600 to 2592000"
	if f == FlavourAzure {
		least, why = 14*24*time.Hour, "must be from 1209600 to 2592000"
	}
	if anchor != "created_at" {
		return 0, invalidParam(param+".anchor", "only created_at is supported")
	}
	if seconds < int64(least/time.Second) || seconds > int64(maxExpiry/time.Second) {
		return 0, invalidParam(param+".seconds", why)
	}
	return time.Duration(seconds) * time.Second, nil
}
