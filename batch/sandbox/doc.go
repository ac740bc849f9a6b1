// Package sandbox is a local server that speaks OpenAI's Files and Batches API,
// Anthropic's Message Batches API, and two that answer one text a call: Azure AI
// Content Safety, with its tokens, and the chat completions of a server of one's
// own. It is for drills, demos and tests. It runs in a test (a [Server] is an
// http.Handler) or as a process of its own, and keeps its state in a folder, so
// that it survives being killed.
//
// It is not a model. Reports are judged by a short list of words, and every
// answer says so: its model is "sandbox-stand-in" and its fingerprint
// "rollcall-sandbox-stand-in". Text cannot instruct it, because it never reads
// text as anything but words.
//
// Time in the sandbox is virtual: it runs Speed times as fast as the clock of
// the process, and a restart goes on where time has got to meanwhile. Nothing
// happens in the background. Where a job stands follows from virtual time when
// somebody asks, and what must be written is written then:
//
//	created ── validating ── in_progress ── finalizing ── completed
//	               │              ├── the window closes ── expired
//	               └── failed     └── cancel ── cancelling ── cancelled
//
// Faults ([Fault]) make it misbehave on request. Its [Books] say what it
// accepted, so that a drill can prove that no work was sent twice. Both are also
// served under /_sandbox/, without a key: bind it to a loopback address.
//
// Report text is in the uploaded files, in the copy that a running job keeps
// until it ends, and in quotes in the results. It is in no log line, no error
// and no answer under /_sandbox/.
package sandbox
