package main

import (
	"errors"
	"fmt"
	"strings"

	"rollcall/batch/sandbox"
	"rollcall/configs"
)

// sandboxed is how the sandbox is called as one of the providers.
type sandboxed struct {
	word     string // of a flag
	provider string // of the configuration
	path     string // of the base URL
	says     string // what it stands in for
	// badDay are faults as they come with a provider: each makes something fail in
	// another way, and none may cost a report its record.
	badDay []string
	// books is what the sandbox itself has counted. It is an error when it saw what
	// no client may do.
	books func(*sandbox.Server) (string, error)
}

var allSandboxed = []sandboxed{
	{"openai", "openai", "/v1", "OpenAI, with jobs", []string{
		"missing_line:every=41,times=2", "refusal:every=53,times=1", "invalid_json:every=47,times=2",
		"duplicate_line:every=29,times=1", "conflicting_line:every=61,times=1", "item_error:every=67,times=1",
	}, jobBooks},
	{"anthropic", "anthropic", "", "Anthropic's Message Batches", []string{
		"missing_line:every=41,times=2", "refusal:every=53,times=1", "invalid_json:every=47,times=2",
		"duplicate_line:every=29,times=1", "conflicting_line:every=61,times=1", "item_class:every=67,times=1",
		"overloaded:op=status,times=2",
	}, jobBooks},
	{"infrai", "infrai", "", "Infrai's batch API, by a pin that was made up", []string{
		"drop_after:op=create,times=1", "missing_line:every=41,times=2", "refusal:every=53,times=1", "invalid_json:every=47,times=2",
		"duplicate_line:every=29,times=1", "infrai_cache_hit:every=61,times=1", "item_error:every=67,times=1",
	}, infraiBooks},
	{"azure", "azure-content-safety", "", "Azure AI Content Safety, one text a call", []string{
		"rate_limit:op=analyze,retry_after=1,times=1", "server_error:op=analyze,times=2", "drop_after:op=analyze,times=2", "bad_gateway:op=analyze,times=1",
	}, analyzeBooks},
	{"inhouse", "inhouse", "/v1", "a server of your own, one text a call", []string{
		"chat_loading:times=2", "drop_after:op=chat,times=2", "invalid_json:every=47,times=2", "refusal:every=53,times=1", "length:every=59,times=1",
	}, chatBooks},
}

func sandboxedWords() string {
	var words []string
	for _, s := range allSandboxed {
		words = append(words, s.word)
	}
	return strings.Join(words, ", ")
}

// sandboxedAs finds one by its word, or by the configuration's.
func sandboxedAs(word string) (sandboxed, error) {
	for _, s := range allSandboxed {
		if s.word == word || s.provider == word {
			return s, nil
		}
	}
	return sandboxed{}, usageError("--provider %q is none of %s", word, sandboxedWords())
}

// options are those of a sandbox that has a bad day.
func (s sandboxed) options() (sandbox.Options, error) {
	o := sandbox.Options{}
	for _, text := range s.badDay {
		f, err := sandbox.ParseFault(text)
		if err != nil {
			return o, err
		}
		o.Faults = append(o.Faults, f)
	}
	var err error
	o.Infrai, err = sandboxPin(pinAssumed)
	return o, err
}

// scaffold is a deployment that calls the sandbox at a base URL.
func (s sandboxed) scaffold(baseURL string) configs.ScaffoldOptions {
	return configs.ScaffoldOptions{SandboxURL: baseURL, Provider: s.provider, Pin: sandbox.AssumedPin}
}

func jobBooks(box *sandbox.Server) (string, error) {
	books, err := box.Books()
	if err != nil {
		return "", err
	}
	return sentAgain(books.Works.Distinct, books.AcceptedJobs, books.Works.InMoreThanOneJob), nil
}

func sentAgain(texts, jobs, again int) string {
	return fmt.Sprintf("%d texts in %d jobs; %d texts were sent again, because their first answer was missing or unusable", texts, jobs, again)
}

func infraiBooks(box *sandbox.Server) (string, error) {
	books := box.Infrai()
	if len(books.Violations) > 0 {
		return "", errors.New("the sandbox saw what no client may do: " + strings.Join(books.Violations, "; "))
	}
	times := map[string]int{} // by work, which is an id without its attempt
	for _, j := range books.Jobs {
		for _, id := range j.Items {
			times[id[:max(strings.LastIndexByte(id, '-'), 0)]]++
		}
	}
	again := 0
	for _, n := range times {
		if n > 1 {
			again++
		}
	}
	return fmt.Sprintf("%s; %s for these jobs, of which a repeat under the same key made none", sentAgain(len(times), len(books.Jobs), again), plural(books.Submits, "submit", "submits")), nil
}

// calls are how often each operation was asked for.
func calls(box *sandbox.Server, op string) (string, error) {
	books, err := box.Books()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d calls, with those that failed and were made again, and one to try the account out", books.Requests[op]), nil
}

func analyzeBooks(box *sandbox.Server) (string, error) { return calls(box, "analyze") }
func chatBooks(box *sandbox.Server) (string, error)    { return calls(box, "chat") }
